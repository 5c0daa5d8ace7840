DELETE FROM tombstones
WHERE id IN (
    SELECT id FROM tombstones WHERE lasting = :lasting AND dug_at <= :before ORDER BY dug_at LIMIT :limit
)
