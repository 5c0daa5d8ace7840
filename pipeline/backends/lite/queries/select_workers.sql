SELECT beat FROM workers WHERE expires_at > :now ORDER BY worker
