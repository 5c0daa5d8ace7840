SELECT seq, id, named FROM jobs
WHERE state IN ('completed', 'archived', 'cancelled') AND state = 'archived'
  AND queue IN (SELECT value FROM json_each(:queues))
ORDER BY ended_at, seq
LIMIT :limit
