UPDATE jobs
SET state = 'pending', again = 1, entry = ?1, place = ?1, ready_at = ?2, opts = coalesce(?3, opts), due_at = NULL,
    consumer = NULL, progress = NULL
WHERE seq = ?4
