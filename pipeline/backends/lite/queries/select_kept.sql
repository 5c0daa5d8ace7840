SELECT seq, id, named, scopes FROM jobs WHERE state = :state AND ended_at <= :before LIMIT :limit
