SELECT death_id, queue, job_id AS id, type, data, opts, reason, error, died_at
FROM dead
WHERE queue IN (SELECT value FROM json_each(:queues)) AND tended = 0
ORDER BY number
LIMIT :limit
