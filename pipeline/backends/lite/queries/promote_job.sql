UPDATE jobs SET state = 'pending', entry = ?1, place = ?1, ready_at = due_at, due_at = NULL WHERE seq = ?2
