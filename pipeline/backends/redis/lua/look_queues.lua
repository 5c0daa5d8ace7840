#!lua flags=no-writes
-- Whether queues have jobs to claim, and from where on a reader has to listen for more.
-- KEYS[1]  prefix of the home
-- ARGV[…]  queues
-- returns  three a queue: ready (1), paused (-1) or empty (0); the last ids of its stream and of those that come again
-- parts    common bonds seeing
local seen = {}
for _, queue in ipairs(ARGV) do
  local ready, ids = 0, {}
  for i, stream in ipairs({P .. 'q:' .. queue, P .. 'q:' .. queue .. ':again'}) do
    local newest = call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
    ids[i] = newest and newest[1] or '0-0'
    -- Entries are delivered in their order: what is newer than the last delivered one waits.
    if newest and #call('XRANGE', stream, '(' .. reading(stream), '+', 'COUNT', 1) > 0 then ready = 1 end
  end
  if call('SISMEMBER', P .. 'paused', queue) == 1 then ready = -1 end
  seen[#seen + 1], seen[#seen + 2], seen[#seen + 3] = ready, ids[1], ids[2]
end
return seen
