SELECT count(*) FROM (
    SELECT 1 FROM scopes CROSS JOIN jobs ON jobs.seq = scopes.seq
    WHERE scopes.kind = :kind AND scopes.id = :scope AND jobs.state IN ('scheduled', 'pending', 'active', 'retry')
    LIMIT 1 OFFSET :looks
)
