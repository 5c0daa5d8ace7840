SELECT count(*) FROM jobs
WHERE ended_at IS NOT NULL AND state = 'archived' AND queue IN (SELECT value FROM json_each(:queues))
