#!lua flags=allow-oom
-- Let a queue start nothing, or undo that.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel  ARGV[2]  queue  ARGV[3]  SADD or SREM
-- returns  1 where that changed something
-- parts    common
local changed = call(ARGV[3], P .. 'paused', ARGV[2])
call('PUBLISH', ARGV[1], 'signal')
return changed
