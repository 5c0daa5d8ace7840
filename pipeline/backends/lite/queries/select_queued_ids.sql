-- Steps from id to id: a scope with many jobs is looked into only until the first that counts.
WITH RECURSIVE ids (id) AS (
    SELECT min(id) FROM scopes WHERE kind = :kind
    UNION ALL
    SELECT (SELECT min(id) FROM scopes WHERE kind = :kind AND id > ids.id) FROM ids WHERE ids.id IS NOT NULL
)
SELECT id FROM ids
WHERE id IS NOT NULL
  AND EXISTS (
    SELECT 1
    FROM scopes CROSS JOIN jobs ON jobs.seq = scopes.seq
    WHERE scopes.kind = :kind AND scopes.id = ids.id AND jobs.state IN ('scheduled', 'pending', 'active', 'retry')
      AND (:types IS NULL OR jobs.type IN (SELECT value FROM json_each(:types)))
)
