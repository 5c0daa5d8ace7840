SELECT seq, id, type, queue, entry, consumer, cancel, named, unique_key, rerun, scopes
FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND consumer IS NOT NULL
