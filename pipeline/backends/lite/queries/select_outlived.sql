SELECT seq, id, named, scopes FROM jobs WHERE expires_at <= :before LIMIT :limit
