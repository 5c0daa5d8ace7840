SELECT seq, id, named, scopes FROM jobs WHERE ended_at IS NOT NULL AND state = 'archived' AND queue = :queue
LIMIT :limit
