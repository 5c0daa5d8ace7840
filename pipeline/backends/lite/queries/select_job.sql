SELECT id, type, queue, state, data, opts, due_at, claimed_at, ended_at, consumer, reason, cancel, progress
FROM jobs
WHERE id = :id
