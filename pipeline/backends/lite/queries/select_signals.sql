SELECT value FROM counters WHERE name = 'signals'
