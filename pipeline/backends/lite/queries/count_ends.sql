INSERT INTO stats (queue, hour, processed, failed, cancelled)
VALUES (:queue, :hour, :processed, :failed, :cancelled)
ON CONFLICT (hour, queue) DO UPDATE
SET processed = processed + excluded.processed, failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled
