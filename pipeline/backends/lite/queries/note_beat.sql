INSERT OR REPLACE INTO workers (worker, beat, expires_at) VALUES (:worker, :beat, :expires_at)
