UPDATE jobs SET state = 'active', consumer = ?1, claimed_at = ?2, seen_at = ?2, progress = NULL WHERE seq = ?3
