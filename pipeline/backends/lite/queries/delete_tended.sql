DELETE FROM dead
WHERE number IN (
    SELECT number FROM dead
    WHERE queue IN (SELECT value FROM json_each(:queues)) AND tended = 1
    ORDER BY number DESC
    LIMIT :limit OFFSET :most
)
