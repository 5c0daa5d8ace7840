-- What goes again comes first, then fresh jobs; both newest first.
SELECT id, type, queue, state, data, opts, due_at, claimed_at, ended_at, consumer, reason, error, cancel, progress,
       history, again AS first, place AS second
FROM jobs
WHERE place IS NOT NULL AND queue = :queue AND (again, place) < (:first, :second)
  AND (:type = '' OR type = :type) AND (:error = '' OR instr(error, :error))
  AND (:kind = '' OR EXISTS (SELECT 1 FROM scopes WHERE kind = :kind AND id = :scope AND seq = jobs.seq))
ORDER BY again DESC, place DESC
LIMIT :limit
