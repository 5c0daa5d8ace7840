SELECT id, type, queue, state, data, opts, due_at, claimed_at, ended_at, consumer, reason, error, cancel, progress,
       history, entry AS first, seq AS second
FROM jobs
WHERE consumer IS NOT NULL AND queue = :queue AND (entry, seq) < (:first, :second)
  AND (:type = '' OR type = :type) AND (:error = '' OR instr(error, :error))
  AND (:kind = '' OR EXISTS (SELECT 1 FROM scopes WHERE kind = :kind AND id = :scope AND seq = jobs.seq))
ORDER BY entry DESC, seq DESC
LIMIT :limit
