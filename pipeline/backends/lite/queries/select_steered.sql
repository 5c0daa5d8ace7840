SELECT seq, id, type, queue, state, data, opts, named, unique_key, rerun, scopes FROM jobs WHERE id = :id
