#!lua flags=no-writes
-- Queues at a glance.
-- KEYS[1]  prefix of the home
-- ARGV[…]  queues
-- returns  13 a queue: pending, active, scheduled, retry, archived, completed, cancelled; processed, failed and
--          cancelled today; paused (1 or 0), age of the oldest pending job ms, bytes
-- parts    common bonds seeing
local SAMPLE, counted = 5, {}
local day = int(math.floor(now / 86400000))

local function size(key) return tonumber(pcall_('MEMORY', 'USAGE', key)) or 0 end

-- pending, active, since when the oldest one waits, bytes
local function count_stream(stream)
  local delivered, active = reading(stream)
  local pending = math.max(call('XLEN', stream) - active, 0)
  local first = pending > 0 and call('XRANGE', stream, '(' .. delivered, '+', 'COUNT', 1)[1]
  return pending, active, first and tonumber(string.match(first[1], '%d+')) or now, size(stream)
end

-- jobs, bytes; their hashes are as large as the average of a few, for exact figures would read every one
local function count_waiting(key)
  local number, few, bytes = call('ZCARD', key), call('ZRANGE', key, 0, SAMPLE - 1), 0
  for _, id in ipairs(few) do bytes = bytes + size(P .. 'job:' .. id) end
  return number, number > 0 and size(key) + math.floor(bytes / #few * number) or 0
end

for _, queue in ipairs(ARGV) do
  local key = P .. 'q:' .. queue
  local pending, active, since, bytes = count_stream(key)
  local more, held, since_again, bytes_again = count_stream(key .. ':again')
  local row = {pending + more, active + held}
  bytes = bytes + bytes_again
  for _, state in ipairs({'scheduled', 'retry', 'archived', 'completed', 'cancelled'}) do
    local number, of_state = count_waiting(key .. ':' .. state)
    row[#row + 1], bytes = number, bytes + of_state
  end
  local today = {processed = 0, failed = 0, cancelled = 0}
  for name, number in pairs(pairs_of(call('HGETALL', P .. 'stats:' .. queue .. ':' .. day))) do
    name = string.match(name, '^%a+')
    today[name] = (today[name] or 0) + number
  end
  for _, name in ipairs({'processed', 'failed', 'cancelled'}) do row[#row + 1] = today[name] end
  row[11] = call('SISMEMBER', P .. 'paused', queue)
  row[12], row[13] = math.max(now - math.min(since, since_again), 0), bytes
  for _, number in ipairs(row) do counted[#counted + 1] = number end
end
return counted
