INSERT OR REPLACE INTO uniques (type, key, job_id, until, expires_at) VALUES (:type, :key, :id, :until, :expires_at)
