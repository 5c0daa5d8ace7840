-- The number of the death is counted here, so that it grows even where the envelope cannot be read.
UPDATE jobs
SET state = :state, reason = :reason, error = :error, ended_at = :now, expires_at = :expires_at, place = NULL,
    due_at = NULL, consumer = NULL, cancel = 0, died = died + (:state = 'archived'),
    opts = iif(:state = 'archived' AND json_valid(coalesce(:opts, opts)),
               json_set(coalesce(:opts, opts), '$.died', died + 1),
               coalesce(:opts, opts))
WHERE seq = :seq
