#!lua flags=allow-oom
-- pending → active; what is fenced becomes cancelled, what is past its deadline archived (expired).
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel      ARGV[2]  consumer
-- ARGV[3…] three a queue: name, how many, whether those that come again are first (1 or 0); what one cannot give, the
--          others give
-- returns  now; the queues whose group had to be made, with spaces between; 1 where so many were to end that it stopped
--          before it had what was wanted; then six a job: queue, entry, id, type, data, opts
-- parts    common bonds moving happening ending fences
local channel, consumer, claimed = ARGV[1], ARGV[2], {int(now), '', 0}
local ended, ENDED_MOST = 0, 50 -- so that it does not hold the server for long

local function deliver(queue, stream, limit)
  local read = {'XREADGROUP', 'GROUP', group, consumer, 'COUNT', limit, 'STREAMS', stream, '>'}
  local reply = pcall_(unpack(read))
  if reply and reply.err then
    if not string.find(reply.err, 'NOGROUP', 1, true) then return error(reply.err) end
    call('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
    claimed[2] = claimed[2] .. queue .. ' '
    reply = call(unpack(read))
  end
  return reply and reply[1][2] or {}
end

local function stopped(job, hash)
  if hash.cancel then return {state = 'cancelled'} end
  if newest_cut >= 0 then
    local opts = options(job.opts)
    if fenced(job.type, tonumber(opts.root_at) or 0, scopes_of(opts)) then return {state = 'cancelled'} end
  end
  if string.find(job.opts, '"deadline"', 1, true) and (tonumber(options(job.opts).deadline) or now) < now then
    return {state = 'archived', reason = 'expired', error = 'its deadline passed while it waited'}
  end
end

local function admit(queue, entry, body)
  local id = id_of(queue, entry, body)
  local job = {id = id, queue = queue, type = body.type or '', data = body.data or '', opts = body.opts or '{}'}
  local hash = fields(P .. 'job:' .. id, 'queue', 'entry', 'cancel')
  if not hash.queue and not adopt(job) or hash.queue and hash.entry ~= entry then return drop_entry(queue, entry) end
  local how = stopped(job, hash)
  if how then
    finish(job, how, channel)
    return drop_entry(queue, entry)
  end
  if string.find(job.opts, '"unique"', 1, true) then
    local opts = options(job.opts)
    unlock(job, opts, true)
    local lock = lock_of(job.type, opts)
    if lock then hold_lock(lock, id) end
  end
  call('HSET', P .. 'job:' .. id, 'state', 'active', 'entry', entry, 'consumer', consumer, 'claimed_at', int(now))
  for _, value in ipairs({queue, entry, id, job.type, job.data, job.opts}) do claimed[#claimed + 1] = value end
end

local function claim(queue, again, limit)
  local entries = deliver(queue, P .. 'q:' .. queue .. (again and ':again' or ''), limit)
  local before = #claimed
  for _, entry in ipairs(entries) do
    admit(queue, (again and 'again:' or '') .. entry[1], rooted(pairs_of(entry[2] or {}), entry[1]))
  end
  local got = (#claimed - before) / 6
  ended = ended + #entries - got
  return got, #entries
end

-- Returns how many are still wanted: the queue has no more.
local function take(queue, want, again)
  local share = math.ceil(want / 2)
  while want > 0 and ended < ENDED_MOST do
    local got, read = claim(queue, again, math.min(share, want))
    want = want - got
    if want > 0 then
      local more, others = claim(queue, not again, want)
      want, read, share = want - more, read + others, want - more
    end
    if want == 0 or read == 0 then break end
  end
  return want
end

local left, rich = 0, {}
for i = 3, #ARGV, 3 do
  local queue, want, again = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2] == '1'
  local missing = call('SISMEMBER', P .. 'paused', queue) == 1 and want or take(queue, want, again)
  if missing == 0 then rich[#rich + 1] = {queue = queue, again = again} end
  left = left + missing
end
for among = #rich, 1, -1 do
  local one, share = rich[among], math.ceil(left / among)
  left = left - share + take(one.queue, share, one.again)
end
if ended >= ENDED_MOST then claimed[3] = 1 end
return claimed
