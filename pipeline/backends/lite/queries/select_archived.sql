SELECT seq, id, named FROM jobs
WHERE state IN ('completed', 'archived', 'cancelled') AND state = 'archived' AND queue = :queue
