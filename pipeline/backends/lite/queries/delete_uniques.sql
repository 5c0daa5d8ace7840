DELETE FROM uniques
WHERE (type, key) IN (SELECT type, key FROM uniques WHERE expires_at <= :before LIMIT :limit)
