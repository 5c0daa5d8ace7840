UPDATE jobs
SET state = 'pending', again = 1, entry = ?, due_at = ?, opts = coalesce(?, opts), consumer = '', progress = NULL
WHERE seq = ?
