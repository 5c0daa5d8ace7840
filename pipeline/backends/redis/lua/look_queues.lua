#!lua flags=no-writes
-- Whether queues have jobs to claim, and from where on a reader has to listen for more.
-- KEYS[1]  prefix of the home
-- ARGV[…]  queues
-- returns  three a queue: ready (1), paused (-1) or empty (0); the last ids of its stream and of those that come again
-- parts    common
local seen = {}
for _, queue in ipairs(ARGV) do
  local ready, ids = 0, {}
  for i, stream in ipairs({P .. 'q:' .. queue, P .. 'q:' .. queue .. ':again'}) do
    local newest = call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
    local groups = newest and pcall_('XINFO', 'GROUPS', stream) or {}
    local delivered = '0-0'
    for _, one in ipairs(groups.err and {} or groups) do
      local info = pairs_of(one)
      if info.name == group then delivered = info['last-delivered-id'] end
    end
    ids[i] = newest and newest[1] or '0-0'
    if newest and newest[1] ~= delivered then
      -- Entries are delivered in their order: what is newer than the last delivered one waits.
      local waiting = call('XRANGE', stream, '(' .. delivered, '+', 'COUNT', 1)
      if #waiting > 0 then ready = 1 end
    end
  end
  if call('SISMEMBER', P .. 'paused', queue) == 1 then ready = -1 end
  seen[#seen + 1], seen[#seen + 2], seen[#seen + 3] = ready, ids[1], ids[2]
end
return seen
