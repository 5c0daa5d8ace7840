SELECT count(*) FROM jobs
WHERE state IN ('completed', 'archived', 'cancelled') AND state = 'archived'
  AND queue IN (SELECT value FROM json_each(:queues))
