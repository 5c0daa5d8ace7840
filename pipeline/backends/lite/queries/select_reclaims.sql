SELECT name, value FROM counters WHERE name IN ('reclaimed_at', 'quiet_until')
