#!lua flags=allow-oom
-- A worker process ends.
-- KEYS[1]  the registry
-- ARGV[1]  worker
-- returns  1 where it was known
-- parts    common beating
call('ZREM', UNTIL, ARGV[1])
return call('HDEL', KEYS[1], ARGV[1])
