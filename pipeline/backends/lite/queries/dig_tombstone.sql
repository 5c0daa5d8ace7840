INSERT INTO tombstones (id, state, dug_at, lasting) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, dug_at = excluded.dug_at, lasting = excluded.lasting
