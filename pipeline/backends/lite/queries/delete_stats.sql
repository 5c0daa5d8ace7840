DELETE FROM stats
WHERE (queue, day) IN (SELECT queue, day FROM stats WHERE day <= :before LIMIT :limit)
