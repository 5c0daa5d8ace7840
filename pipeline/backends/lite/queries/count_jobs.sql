SELECT queue, 'pending' AS state, count(*) AS number FROM jobs WHERE place IS NOT NULL GROUP BY queue
UNION ALL
SELECT queue, 'active', count(*) FROM jobs WHERE consumer IS NOT NULL GROUP BY queue
UNION ALL
SELECT queue, state, count(*) FROM jobs WHERE due_at IS NOT NULL GROUP BY queue, state
UNION ALL
SELECT queue, state, count(*) FROM jobs WHERE ended_at IS NOT NULL GROUP BY queue, state
