SELECT id, type, queue, state, data, opts, due_at, claimed_at, ended_at, consumer, reason, error, cancel, progress,
       history
FROM (
    SELECT jobs.*
    FROM scopes CROSS JOIN jobs ON jobs.seq = scopes.seq
    WHERE scopes.kind = :kind AND scopes.id = :scope AND jobs.state IN ('scheduled', 'pending', 'active', 'retry')
    ORDER BY scopes.seq
    LIMIT :looks
)
WHERE instr(opts, '"parent_id"') AND iif(json_valid(opts), json_extract(opts, '$.parent_id') = :parent, 0)
LIMIT :limit
