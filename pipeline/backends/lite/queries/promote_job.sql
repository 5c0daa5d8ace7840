UPDATE jobs SET state = 'pending', entry = ? WHERE seq = ?
