SELECT seq, id, type, queue, deadline, named, unique_key, rerun
FROM jobs
WHERE state IN ('scheduled', 'retry') AND due_at <= :now
ORDER BY due_at, seq
LIMIT :limit
