UPDATE counters SET value = value + 1 WHERE name = 'fencing' RETURNING value
