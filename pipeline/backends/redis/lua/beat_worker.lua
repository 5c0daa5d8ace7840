#!lua flags=allow-oom
-- A worker process lives; those that said nothing for too long are forgotten.
-- KEYS[1]  the registry
-- ARGV[1]  worker  ARGV[2]  what it says, as JSON  ARGV[3]  for how long that counts ms
-- returns  when that was
-- parts    common beating
drop_silent()
call('HSET', KEYS[1], ARGV[1], int(now) .. ' ' .. ARGV[2])
call('ZADD', UNTIL, int(now + tonumber(ARGV[3])), ARGV[1])
return int(now)
