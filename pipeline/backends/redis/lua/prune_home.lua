#!lua flags=allow-oom
-- Remove some of what has been kept long enough.
-- KEYS[1]  prefix of the home
-- ARGV[1]  at most so many things
-- ARGV[2]  cancelled, ARGV[3]  archived jobs: for how long they are kept ms  ARGV[4]  how many archived ones at most
-- ARGV[5]  tombstones, ARGV[6]  those of ids that we made: for how long they are kept ms
-- ARGV[7]  fences: for how long they are kept ms  ARGV[8]  the time to live that a fence was written with ms
-- ARGV[9…] the queues of the home
-- returns  how many jobs, tombstones, fences and deaths that nobody records
-- parts    common bonds moving happening ending
local left, jobs, tombstones, fences = tonumber(ARGV[1]), 0, 0, 0

local function oldest(key, before)
  return left > 0 and call('ZRANGEBYSCORE', key, '-inf', int(before), 'LIMIT', 0, left) or {}
end

local function remove(key, id, state)
  local hash = fields(P .. 'job:' .. id, 'queue', 'state', 'named')
  if hash.state == state then
    forget(id, hash.queue, state, state ~= 'completed' or hash.named)
    jobs = jobs + 1
  else
    call('ZREM', key, id)
    for i = 9, state == 'completed' and #ARGV or 0 do call('ZREM', P .. 'q:' .. ARGV[i] .. ':completed', id) end
  end
  left = left - 1
end

local archived, number = {}, 0
for _, id in ipairs(oldest(P .. 'expiring', now)) do remove(P .. 'expiring', id, 'completed') end
for i = 9, #ARGV do
  local key = P .. 'q:' .. ARGV[i] .. ':'
  for _, id in ipairs(oldest(key .. 'cancelled', now - ARGV[2])) do remove(key .. 'cancelled', id, 'cancelled') end
  for _, id in ipairs(oldest(key .. 'archived', now - ARGV[3])) do remove(key .. 'archived', id, 'archived') end
  number = number + call('ZCARD', key .. 'archived')
end

local surplus = math.min(number - tonumber(ARGV[4]), left)
for i = 9, surplus > 0 and #ARGV or 0 do
  local key = P .. 'q:' .. ARGV[i] .. ':archived'
  local found = call('ZRANGE', key, 0, surplus - 1, 'WITHSCORES')
  for j = 1, #found, 2 do archived[#archived + 1] = {key = key, id = found[j], ended = tonumber(found[j + 1])} end
end
table.sort(archived, function(a, b) return a.ended < b.ended or a.ended == b.ended and a.id < b.id end)
for i = 1, surplus do remove(archived[i].key, archived[i].id, 'archived') end

for name, kept in pairs({gone = ARGV[5], ['gone:brief'] = ARGV[6]}) do
  local ids = oldest(P .. name, (now - kept) * 8 + 7)
  if #ids > 0 then tombstones = tombstones + call('ZREM', P .. name, unpack(ids)) end
  left = left - #ids
end

for _, scope in ipairs(oldest(P .. 'fences', now - ARGV[7])) do
  local ttl = call('PTTL', P .. 'fence:' .. scope)
  if ttl <= math.max(ARGV[8] - ARGV[7], 0) then -- it may be younger than its cut
    call('DEL', P .. 'fence:' .. scope)
    fences = fences + call('ZREM', P .. 'fences', scope)
  end
end

local unrecorded = math.min(call('XLEN', P .. 'dead:tended') - tonumber(ARGV[4]), left)
if unrecorded > 0 then
  for _, entry in ipairs(call('XRANGE', P .. 'dead:tended', '-', '+', 'COUNT', unrecorded)) do
    call('HDEL', P .. 'dead:tended:at', pairs_of(entry[2]).death_id)
    call('XDEL', P .. 'dead:tended', entry[1])
  end
end
return {jobs, tombstones, fences, math.max(unrecorded, 0)}
