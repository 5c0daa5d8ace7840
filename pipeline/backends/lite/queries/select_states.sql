SELECT id, state FROM jobs WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, state FROM tombstones WHERE id IN (SELECT value FROM json_each(:ids))
