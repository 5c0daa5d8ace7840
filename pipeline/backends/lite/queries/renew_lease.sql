UPDATE jobs SET seen_at = :now
WHERE id = :id AND entry = :entry AND consumer = :consumer
RETURNING cancel
