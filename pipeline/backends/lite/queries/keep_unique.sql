UPDATE uniques SET until = :until, expires_at = :expires_at WHERE type = :type AND key = :key AND job_id = :id
