UPDATE jobs
SET state = ?, opts = coalesce(?, opts), due_at = ?, again = ?, error = ?, consumer = '', progress = NULL
WHERE seq = ?
