SELECT min(ready_at) FROM (
    SELECT * FROM (
        SELECT ready_at FROM jobs WHERE place IS NOT NULL AND queue = :queue AND again = 0 ORDER BY place LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT ready_at FROM jobs WHERE place IS NOT NULL AND queue = :queue AND again = 1 ORDER BY place LIMIT 1
    )
)
