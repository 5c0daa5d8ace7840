INSERT OR REPLACE INTO locks (name, owner, number, expires_at) VALUES (:name, :owner, :number, :expires_at)
