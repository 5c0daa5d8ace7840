DELETE FROM workers WHERE worker IN (SELECT worker FROM workers WHERE expires_at <= :before LIMIT :limit)
