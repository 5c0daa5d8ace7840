SELECT 1
FROM scopes CROSS JOIN jobs ON jobs.seq = scopes.seq
WHERE scopes.kind = :kind AND scopes.id = :id AND jobs.state IN ('scheduled', 'pending', 'active', 'retry')
  AND (:types IS NULL OR jobs.type IN (SELECT value FROM json_each(:types)))
LIMIT 1
