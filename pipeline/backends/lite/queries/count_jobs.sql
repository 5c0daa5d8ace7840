SELECT queue, 'pending' AS state, count(*) AS number FROM jobs WHERE state = 'pending' GROUP BY queue
UNION ALL
SELECT queue, 'active', count(*) FROM jobs WHERE state = 'active' GROUP BY queue
UNION ALL
SELECT queue, state, count(*) FROM jobs WHERE state IN ('scheduled', 'retry') GROUP BY queue, state
UNION ALL
SELECT queue, state, count(*) FROM jobs WHERE state IN ('completed', 'archived', 'cancelled') GROUP BY queue, state
