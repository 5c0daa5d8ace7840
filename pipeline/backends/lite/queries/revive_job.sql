UPDATE jobs
SET reason = NULL, ended_at = 0, error = iif(state = 'archived', '', error),
    deadline = iif(state = 'archived', NULL, deadline)
WHERE seq = :seq
