SELECT seq, id, type, queue, state, data, opts, named, unique_key, rerun FROM jobs WHERE id = :id
