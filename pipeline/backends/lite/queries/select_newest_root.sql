SELECT value FROM counters WHERE name = 'rooted'
