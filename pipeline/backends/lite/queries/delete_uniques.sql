DELETE FROM uniques
WHERE (type, key) IN (SELECT type, key FROM uniques WHERE until = 'ttl' AND expires_at <= :before LIMIT :limit)
