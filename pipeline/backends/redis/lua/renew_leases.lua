#!lua flags=allow-oom
-- A worker says that it lives. Never a bare XCLAIM, which would steal back what was handed on.
-- KEYS[1]  prefix of the home
-- ARGV[…]  four a delivery: queue, entry, id, consumer
-- returns  held, lost or cancel, a delivery
-- parts    common
local states = {}
for i = 1, #ARGV, 4 do
  local queue, entry, id, consumer = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local hash = fields(P .. 'job:' .. id, 'entry', 'cancel')
  local state = 'lost'
  if (not hash.entry or hash.entry == entry) and owned(queue, entry, consumer) then
    local stream, number = place(queue, entry)
    local kept = call('XCLAIM', stream, group, consumer, 0, number, 'JUSTID')
    if #kept == 1 then state = hash.cancel and 'cancel' or 'held' end -- else somebody deleted the entry
  end
  states[#states + 1] = state
end
return states
