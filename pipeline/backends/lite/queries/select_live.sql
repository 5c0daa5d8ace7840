SELECT seq, id, type, queue, state, named, unique_key, rerun, scopes
FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('scheduled', 'pending', 'active', 'retry')
