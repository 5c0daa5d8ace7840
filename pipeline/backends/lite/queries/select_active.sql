SELECT seq, id, type, queue, entry, consumer, cancel, named, unique_key, rerun
FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'active'
