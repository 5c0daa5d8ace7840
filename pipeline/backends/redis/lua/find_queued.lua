#!lua flags=no-writes
-- Whether a scope has a job that has not ended.
-- KEYS[1]  prefix of the home
-- ARGV[1]  scope: kind|id
-- ARGV[2…] job types (none: any)
-- returns  1 or 0
-- parts    common bonds seeing
return lives(ARGV[1], {unpack(ARGV, 2)}) and 1 or 0
