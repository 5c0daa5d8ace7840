INSERT OR IGNORE INTO paused (queue) VALUES (:queue)
