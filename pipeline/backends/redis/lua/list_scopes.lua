#!lua flags=no-writes
-- The ids of a kind of scope that have a job that has not ended; it steps from id to id, however many jobs each has.
-- KEYS[1]  prefix of the home
-- ARGV[1]  kind  ARGV[2]  id to go on after (empty: from the first on)
-- ARGV[3…] job types (none: any)
-- returns  the id to go on after (empty: that was all), ids
-- parts    common bonds seeing
local types, ids, last = {unpack(ARGV, 3)}, {}, ARGV[2]
local function first_after(id)
  local from = id == '' and '[' .. ARGV[1] .. '|' or '(' .. ARGV[1] .. '|' .. id .. '|\255'
  local member = call('ZRANGEBYLEX', P .. 'scopes', from, '[' .. ARGV[1] .. '|\255', 'LIMIT', 0, 1)[1]
  return member and string.match(member, '^[^|]*|([^|]*)|')
end

for _ = 1, math.ceil(1000 / (1 + #types)) do
  local id = first_after(last)
  if not id then return {'', ids} end
  if #types == 0 or lives(ARGV[1] .. '|' .. id, types) then ids[#ids + 1] = id end
  last = id
end
return {last, ids}
