SELECT seq, id, type, queue, data, opts, entry, root_at, deadline, named, unique_key, rerun, scopes
FROM jobs
WHERE place IS NOT NULL AND queue = :queue AND again = :again
ORDER BY place
LIMIT :limit
