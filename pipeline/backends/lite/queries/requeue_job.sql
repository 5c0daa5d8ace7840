UPDATE jobs
SET state = 'pending', again = 1, entry = ?, ready_at = ?, opts = coalesce(?, opts), due_at = NULL, consumer = NULL,
    progress = NULL
WHERE seq = ?
