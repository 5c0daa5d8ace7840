SELECT seq, id, named FROM jobs WHERE state = 'completed' AND state = :state AND expires_at <= :before LIMIT :limit
