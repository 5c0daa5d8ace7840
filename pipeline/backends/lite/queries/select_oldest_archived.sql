SELECT seq, id, named, scopes FROM jobs
WHERE ended_at IS NOT NULL AND state = 'archived' AND queue IN (SELECT value FROM json_each(:queues))
ORDER BY ended_at, seq
LIMIT :limit
