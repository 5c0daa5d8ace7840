SELECT seq, id, type, queue, state, data, opts, named, unique_key, rerun, scopes, root_at FROM jobs WHERE id = :id
