#!lua flags=allow-oom
-- Give a place of a lock back.
-- KEYS[1]  the lock
-- ARGV[1]  owner
-- returns  1, or 0 where it was not theirs (any more)
-- parts    common
local expires = string.match(call('HGET', KEYS[1], ARGV[1]) or '', ' (%d+)$')
call('HDEL', KEYS[1], ARGV[1])
return tonumber(expires or '0') > now and 1 or 0
