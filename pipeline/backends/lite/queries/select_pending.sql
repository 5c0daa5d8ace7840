SELECT seq, id, type, queue, data, opts, entry, deadline, named, unique_key, rerun, scopes
FROM jobs
WHERE state = 'pending' AND queue = :queue AND again = :again
ORDER BY entry
LIMIT :limit
