#!lua flags=allow-oom
-- Remove consumers of workers that are gone. One that holds a delivery stays: the delivery would be lost with it.
-- KEYS[1]  prefix of the home
-- ARGV[1]  the workers that live, as JSON
-- ARGV[2…] the queues of the home
-- returns  how many
-- parts    common
local living, dropped = {}, 0
for _, worker in ipairs(cjson.decode(ARGV[1])) do living[worker] = true end

local function tidy(stream)
  local consumers = pcall_('XINFO', 'CONSUMERS', stream, group)
  for _, one in ipairs(consumers.err and {} or consumers) do
    local info = pairs_of(one)
    local worker = string.match(info.name, '^(.*)/') or info.name
    if info.pending == 0 and not living[worker] then
      call('XGROUP', 'DELCONSUMER', stream, group, info.name)
      dropped = dropped + 1
    end
  end
end

for i = 2, #ARGV do
  tidy(P .. 'q:' .. ARGV[i])
  tidy(P .. 'q:' .. ARGV[i] .. ':again')
end
return dropped
