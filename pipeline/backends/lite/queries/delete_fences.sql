DELETE FROM fences
WHERE (kind, id, covers) IN (
    SELECT kind, id, covers FROM fences WHERE written_at <= :before ORDER BY written_at LIMIT :limit
)
