UPDATE counters SET value = max(value, :root_at) WHERE name = 'rooted'
