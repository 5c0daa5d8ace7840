-- The average of a few: exact figures would read every job.
SELECT avg(length(data) + length(opts)) FROM (
    SELECT * FROM (SELECT data, opts FROM jobs WHERE state = 'pending' AND queue = :queue LIMIT 20)
    UNION ALL
    SELECT * FROM (
        SELECT data, opts FROM jobs WHERE state IN ('scheduled', 'retry') AND queue = :queue LIMIT 20
    )
    UNION ALL
    SELECT * FROM (
        SELECT data, opts FROM jobs
        WHERE state IN ('completed', 'archived', 'cancelled') AND queue = :queue
        LIMIT 20
    )
)
