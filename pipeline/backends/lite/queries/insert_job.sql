INSERT INTO jobs (seq, id, type, queue, state, data, opts, named, root_at, deadline, unique_key, entry, due_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
