DELETE FROM stats
WHERE (hour, queue) IN (SELECT hour, queue FROM stats WHERE hour <= :before LIMIT :limit)
