SELECT queue, sum(processed) AS processed, sum(failed) AS failed, sum(cancelled) AS cancelled
FROM stats
WHERE hour >= :first
GROUP BY queue
