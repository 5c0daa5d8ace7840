INSERT INTO jobs (
    seq, id, type, queue, state, data, opts, scopes, named, root_at, deadline, unique_key, entry, place,
    ready_at, due_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
