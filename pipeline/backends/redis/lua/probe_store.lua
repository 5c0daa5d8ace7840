#!lua flags=no-writes
-- Whether scripts can be run and keys be read.
-- KEYS[1]  what is written to see whether Redis takes writes
-- returns  what was there
-- parts
return redis.call('GET', KEYS[1])
