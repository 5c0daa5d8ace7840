UPDATE jobs SET progress = :progress
WHERE id = :id AND state = 'active' AND entry = :entry AND consumer = :consumer
