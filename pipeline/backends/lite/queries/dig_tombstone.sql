INSERT INTO tombstones (id, state, dug_at) VALUES (:id, :state, :now)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, dug_at = excluded.dug_at
