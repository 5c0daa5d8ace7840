SELECT death_id, queue, job_id AS id, type, data, opts, reason, error, died_at
FROM dead
WHERE queue IN (SELECT value FROM json_each(:queues)) AND tended = 1
ORDER BY number
LIMIT :limit
