UPDATE counters SET value = value + :count WHERE name = 'number' RETURNING value
