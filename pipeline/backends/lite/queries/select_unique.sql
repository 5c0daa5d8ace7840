-- The job that holds a unique key. One of `ttl` may have ended, and be gone, before its lock.
SELECT coalesce(jobs.state, tombstones.state, 'completed') AS state, uniques.job_id AS id, jobs.seq, jobs.type,
       jobs.queue, jobs.named, jobs.unique_key, jobs.rerun, jobs.scopes
FROM uniques
LEFT JOIN jobs ON jobs.id = uniques.job_id
LEFT JOIN tombstones ON tombstones.id = uniques.job_id
WHERE uniques.type = :type AND uniques.key = :key
  AND iif(uniques.until = 'ttl', uniques.expires_at > :now,
          jobs.state IN ('scheduled', 'pending', 'active', 'retry'))
