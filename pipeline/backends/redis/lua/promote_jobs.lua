#!lua flags=allow-oom
-- scheduled, retry → pending when due; archived (expired) where the due time is past the deadline.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel  ARGV[2]  at most so many
-- ARGV[3…] the queues of the home
-- returns  how many moved, how long until the next one is due ms (empty: none waits)
-- parts    common bonds moving happening ending
local channel, left, moved, head, room = ARGV[1], tonumber(ARGV[2]), 0, nil, 1048576
local LATE = {state = 'archived', reason = 'expired', error = 'its deadline passed while it waited'}

local function promote(queue, state, id)
  call('ZREM', P .. 'q:' .. queue .. ':' .. state, id) -- first, for at its end the job may become scheduled anew
  local hash = fields(P .. 'job:' .. id, 'state', 'type', 'data', 'opts', 'again')
  if hash.state == state then
    local job = {id = id, queue = queue, type = hash.type, data = hash.data, opts = hash.opts}
    room = room - #job.data
    local opts = options(job.opts)
    if (tonumber(opts.deadline) or now) < now then
      finish(job, LATE, channel)
    else
      to_pending(job, hash.again == '1')
      local lock = lock_of(job.type, opts)
      if lock then hold_lock(lock, id) end
      moved = moved + 1
    end
  end
end

for i = 3, #ARGV do
  for _, state in ipairs({'scheduled', 'retry'}) do
    local key = P .. 'q:' .. ARGV[i] .. ':' .. state
    local due = left > 0 and call('ZRANGEBYSCORE', key, '-inf', int(now), 'LIMIT', 0, left) or {}
    left = left - #due
    for _, id in ipairs(due) do
      if room > 0 then promote(ARGV[i], state, id) end -- else the next time: bodies are large
    end
    local first = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or '')
    if first and (not head or first < head) then head = first end
  end
end
if head then call('HSET', P .. 'meta', 'head', int(head)) else call('HDEL', P .. 'meta', 'head') end
return {moved, head and int(math.max(head - now, 0)) or ''}
