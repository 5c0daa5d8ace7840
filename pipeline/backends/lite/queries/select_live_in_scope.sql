SELECT jobs.seq, jobs.id, jobs.type, jobs.queue, jobs.state, jobs.named, jobs.unique_key, jobs.rerun, jobs.scopes,
       jobs.root_at
FROM scopes CROSS JOIN jobs ON jobs.seq = scopes.seq
WHERE scopes.kind = :kind AND scopes.id = :id AND scopes.seq > :after
  AND jobs.state IN ('scheduled', 'pending', 'active', 'retry')
ORDER BY scopes.seq
LIMIT :limit
