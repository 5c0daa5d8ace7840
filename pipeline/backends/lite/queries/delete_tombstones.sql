DELETE FROM tombstones WHERE id IN (SELECT id FROM tombstones WHERE dug_at <= :before ORDER BY dug_at LIMIT :limit)
