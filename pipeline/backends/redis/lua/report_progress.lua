#!lua
-- KEYS[1]  prefix of the home
-- ARGV[1]  queue  ARGV[2]  entry  ARGV[3]  id  ARGV[4]  consumer
-- ARGV[5]  done, total and stage as a list in JSON     ARGV[6]  at (0: now)
-- returns  1, or 0 where the delivery was not current
-- parts    common
if not owned(ARGV[1], ARGV[2], ARGV[4]) then return 0 end
local key = P .. 'job:' .. ARGV[3]
local entry = call('HGET', key, 'entry')
if entry ~= ARGV[2] then return 0 end
local at = ARGV[6] ~= '0' and ARGV[6] or int(now)
call('HSET', key, 'progress', string.sub(ARGV[5], 1, -2) .. ',' .. at .. ']')
return 1
