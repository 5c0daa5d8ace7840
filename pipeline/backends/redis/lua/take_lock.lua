#!lua flags=allow-oom
-- Take or renew a place of a lock. Its number is never smaller than one that was given before: it is the time, or more.
-- KEYS[1]  the lock
-- ARGV[1]  owner  ARGV[2]  for how long ms  ARGV[3]  how many places there are
-- returns  the number; nothing where all places are taken
-- parts    common
local held, number, last, latest = 0, nil, 0, now + tonumber(ARGV[2])
for owner, place_ in pairs(pairs_of(call('HGETALL', KEYS[1]))) do
  local given, expires = string.match(place_, '^(%d+) (%d+)$')
  last = math.max(last, tonumber(given))
  if tonumber(expires) <= now then
    call('HDEL', KEYS[1], owner)
  else
    held, latest = held + 1, math.max(latest, tonumber(expires))
    if owner == ARGV[1] then number = tonumber(given) end
  end
end
if not number and held >= tonumber(ARGV[3]) then return false end
number = number or math.max(last + 1, clock[1] * 1000000 + clock[2])
call('HSET', KEYS[1], ARGV[1], int(number) .. ' ' .. int(now + tonumber(ARGV[2])))
call('PEXPIREAT', KEYS[1], int(latest))
return number
