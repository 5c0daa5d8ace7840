#!lua flags=no-writes
-- What queues did, by the hour.
-- KEYS[1]  prefix of the home
-- ARGV[1]  of how many days, today the last
-- ARGV[2…] queues
-- returns  now; then, a queue and a day, names with the hour of the day (processed:13) and numbers
-- parts    common
local today, found = math.floor(now / 86400000), {int(now)}
for i = 2, #ARGV do
  for day = today - ARGV[1] + 1, today do
    found[#found + 1] = call('HGETALL', P .. 'stats:' .. ARGV[i] .. ':' .. int(day))
  end
end
return found
