SELECT id, type, queue, data, opts, entry, claimed_at FROM jobs
WHERE consumer = :consumer AND queue IN (SELECT value FROM json_each(:queues))
