SELECT min(ready_at) FROM (
    SELECT * FROM (
        SELECT ready_at FROM jobs WHERE state = 'pending' AND queue = :queue AND again = 0 ORDER BY entry LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT ready_at FROM jobs WHERE state = 'pending' AND queue = :queue AND again = 1 ORDER BY entry LIMIT 1
    )
)
