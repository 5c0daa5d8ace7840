SELECT seq, id, named FROM jobs
WHERE state IN ('archived', 'cancelled') AND state = :state AND ended_at <= :before
LIMIT :limit
