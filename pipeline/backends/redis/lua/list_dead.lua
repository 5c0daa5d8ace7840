#!lua flags=no-writes
-- The oldest deaths that nobody has taken care of yet, or that only lack their row.
-- KEYS[1]  prefix of the home
-- ARGV[1]  at most so many  ARGV[2]  entry to go on after (empty: from the first on)
-- ARGV[3]  dead or dead:tended
-- ARGV[4…] queues
-- returns  the entry to go on after (empty: that was all), the fields of each death
-- parts    common
local limit, from, size, LOOKS, BYTES = tonumber(ARGV[1]), ARGV[2], 1, 300, 1048576
local asked, deaths, looks, bytes = {}, {}, 0, 0
for i = 4, #ARGV do asked[ARGV[i]] = true end

while #deaths < limit and looks < LOOKS and bytes < BYTES do
  local found = call('XRANGE', P .. ARGV[3], from == '' and '-' or '(' .. from, '+', 'COUNT', size)
  if #found == 0 then return {'', deaths} end
  size = math.min(size * 2, 16) -- few at first, for bodies may be large
  for _, entry in ipairs(found) do
    if #deaths == limit then break end
    local death = pairs_of(entry[2])
    if asked[death.queue] then deaths[#deaths + 1] = entry[2] end
    bytes, looks, from = bytes + #(death.data or ''), looks + 1, entry[1]
  end
end
return {from, deaths}
