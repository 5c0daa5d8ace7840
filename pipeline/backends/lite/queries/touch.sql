UPDATE counters SET value = value WHERE name = 'number'
