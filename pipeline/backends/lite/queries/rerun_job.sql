UPDATE jobs
SET state = 'scheduled', due_at = :due, root_at = :root_at, deadline = :deadline, data = coalesce(:data, data),
    opts = :opts, scopes = :scopes, again = 0, consumer = NULL, cancel = 0, rerun = NULL, progress = NULL, error = ''
WHERE seq = :seq
