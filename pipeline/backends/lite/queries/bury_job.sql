INSERT INTO dead (death_id, queue, job_id, type, data, opts, reason, error, died_at)
SELECT id || ':' || died, queue, id, type, data, opts, reason, error, ended_at FROM jobs WHERE seq = ?
