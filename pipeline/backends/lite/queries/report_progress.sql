UPDATE jobs SET progress = :progress WHERE id = :id AND entry = :entry AND consumer = :consumer
