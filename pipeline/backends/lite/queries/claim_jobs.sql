UPDATE jobs
SET state = 'active', place = NULL, consumer = :consumer, claimed_at = :now, seen_at = :now, progress = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs))
