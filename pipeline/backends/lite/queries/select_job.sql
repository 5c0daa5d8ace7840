SELECT id, type, queue, state, data, opts, due_at, claimed_at, ended_at, consumer, reason, error, cancel, progress,
       history
FROM jobs
WHERE id = :id
