UPDATE jobs SET state = 'pending', entry = ?, ready_at = due_at, due_at = NULL WHERE seq = ?
