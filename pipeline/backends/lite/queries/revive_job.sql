UPDATE jobs
SET reason = NULL, ended_at = NULL, error = iif(state = 'archived', '', error),
    deadline = iif(state = 'archived', NULL, deadline)
WHERE seq = :seq
