DELETE FROM locks WHERE (name, owner) IN (SELECT name, owner FROM locks WHERE expires_at <= :before LIMIT :limit)
