UPDATE jobs
SET state = ?, opts = coalesce(?, opts), due_at = ?, again = ?, error = ?, consumer = NULL, progress = NULL
WHERE seq = ?
