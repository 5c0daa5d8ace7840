SELECT id, type, queue, state, data, opts, due_at, claimed_at, ended_at, consumer, reason, error, cancel, progress,
       history, due_at AS first, seq AS second
FROM jobs
WHERE due_at IS NOT NULL AND state = :state AND queue = :queue AND (due_at, seq) > (:first, :second)
  AND (:type = '' OR type = :type) AND (:error = '' OR instr(error, :error))
  AND (:kind = '' OR EXISTS (SELECT 1 FROM scopes WHERE kind = :kind AND id = :scope AND seq = jobs.seq))
ORDER BY due_at, seq
LIMIT :limit
