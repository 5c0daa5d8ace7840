#!lua
-- KEYS[1]  prefix of the home
-- ARGV[1]  queue  ARGV[2]  entry  ARGV[3]  id  ARGV[4]  consumer
-- ARGV[5]  done   ARGV[6]  total  ARGV[7]  stage  ARGV[8]  at (0: now)
-- returns  1, or 0 where the delivery was not current
-- parts    common
if not owned(ARGV[1], ARGV[2], ARGV[4]) then return 0 end
local key = P .. 'job:' .. ARGV[3]
local entry = call('HGET', key, 'entry')
if entry ~= ARGV[2] then return 0 end
local at = ARGV[8] ~= '0' and ARGV[8] or int(now)
call('HSET', key, 'progress', '[' .. ARGV[5] .. ',' .. ARGV[6] .. ',' .. cjson.encode(ARGV[7]) .. ',' .. at .. ']')
return 1
