INSERT INTO stats (queue, day, processed, failed, cancelled)
VALUES (:queue, :day, :processed, :failed, :cancelled)
ON CONFLICT (queue, day) DO UPDATE
SET processed = processed + excluded.processed, failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled
