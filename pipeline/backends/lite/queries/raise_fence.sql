INSERT INTO fences (kind, id, covers, cut, written_at) VALUES (:kind, :id, :covers, :cut, :now)
ON CONFLICT (kind, id, covers) DO UPDATE SET cut = max(cut, excluded.cut), written_at = excluded.written_at
