-- What comes again and what is fresh are delivered alternately.
SELECT
    (SELECT count(*) FROM (
        SELECT 1 FROM jobs
        WHERE jobs.place IS NOT NULL AND jobs.queue = one.queue AND jobs.again = one.again AND jobs.place < one.place
        LIMIT :most
    )) AS ahead,
    (SELECT count(*) FROM (
        SELECT 1 FROM jobs
        WHERE jobs.place IS NOT NULL AND jobs.queue = one.queue AND jobs.again = 1 - one.again
        LIMIT :most
    )) AS others
FROM jobs AS one
WHERE one.id = :id AND one.place IS NOT NULL
