-- The average of a few: exact figures would read every job.
SELECT avg(length(data) + length(opts)) FROM (
    SELECT * FROM (SELECT data, opts FROM jobs WHERE place IS NOT NULL AND queue = :queue LIMIT 20)
    UNION ALL
    SELECT * FROM (
        SELECT data, opts FROM jobs WHERE due_at IS NOT NULL AND queue = :queue LIMIT 20
    )
    UNION ALL
    SELECT * FROM (
        SELECT data, opts FROM jobs
        WHERE ended_at IS NOT NULL AND queue = :queue
        LIMIT 20
    )
)
