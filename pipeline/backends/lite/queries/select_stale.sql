SELECT seq, id, type, queue, opts, entry, consumer, cancel, named, unique_key, rerun
FROM jobs
WHERE state = 'active' AND (seen_at <= :before OR seen_at > :after)
ORDER BY seen_at
LIMIT :limit
