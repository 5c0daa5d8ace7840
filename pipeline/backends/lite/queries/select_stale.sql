SELECT seq, id, type, queue, opts, entry, consumer, cancel, named, unique_key, rerun, scopes
FROM jobs
WHERE consumer IS NOT NULL AND (seen_at <= :before OR seen_at > :after)
LIMIT :limit
