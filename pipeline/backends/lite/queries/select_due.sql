SELECT seq, id, type, queue, deadline, named, unique_key, rerun, scopes
FROM jobs
WHERE due_at <= :now
ORDER BY due_at, seq
LIMIT :limit
