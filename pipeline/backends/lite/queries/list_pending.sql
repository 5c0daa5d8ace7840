-- What goes again comes first, then fresh jobs; both newest first.
SELECT id, type, queue, state, data, opts, due_at, claimed_at, ended_at, consumer, reason, cancel, progress,
       again AS first, entry AS second
FROM jobs
WHERE state = 'pending' AND queue = :queue AND (again, entry) < (:first, :second)
  AND (:type = '' OR type = :type) AND (:error = '' OR instr(error, :error))
  AND (:kind = '' OR EXISTS (SELECT 1 FROM scopes WHERE kind = :kind AND id = :scope AND seq = jobs.seq))
ORDER BY again DESC, entry DESC
LIMIT :limit
