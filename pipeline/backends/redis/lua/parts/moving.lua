-- How a job that lives comes to another place. job: id, queue, type, data, opts (text).
local NET_MS = 30 * 86400000

local function publish_due(channel, due)
  local head = tonumber(call('HGET', P .. 'meta', 'head') or '')
  if not head or due < head then
    call('HSET', P .. 'meta', 'head', int(due))
    call('PUBLISH', channel, 'due')
  end
end

-- A lock ends with its job; its TTL is only a net under what no script foresees.
local function hold_lock(lock, id, due)
  if lock.until_ == 'ttl' then return end
  if call('GET', lock.key) == lock.until_ .. ' ' .. id then
    call('PEXPIREAT', lock.key, int(math.max(due or now, now) + NET_MS))
  end
end

local function take(lock, id, due)
  local ttl = lock.until_ == 'ttl' and math.ceil(lock.ttl * 1000) or math.max(due - now, 0) + NET_MS
  call('SET', lock.key, lock.until_ .. ' ' .. id, 'PX', int(ttl))
end

-- Where a job stands. One that lies nowhere, because somebody deleted its entry, stands in nobody's way.
local function standing(id)
  local hash = fields(P .. 'job:' .. id, 'queue', 'state', 'entry')
  if not hash.entry or read_entry(hash.queue, hash.entry) then return hash.state or tombstone(id) end
  call('DEL', P .. 'job:' .. id)
end

-- The job that has a lock, and its state. One of "ttl" may have ended, and be gone, before its lock.
local function holder(lock)
  local until_, id = string.match(call('GET', lock.key) or '', '^(%S+) (%S+)$')
  if not id then return nil end
  local state = standing(id)
  if until_ == 'ttl' then return id, state or 'completed' end
  if state and not ENDED[state] then return id, state end
  return nil
end

local function unlock(job, opts, only_started)
  local lock = lock_of(job.type, opts)
  if not lock or lock.until_ == 'ttl' or (only_started and lock.until_ ~= 'started') then return end
  if call('GET', lock.key) == lock.until_ .. ' ' .. job.id then call('DEL', lock.key) end
end

-- An entry that another language wrote, or whose record is gone, becomes a job here. Returns whether it may.
local function adopt(job)
  if tombstone(job.id) then return false end
  local opts = bonds(job.opts)
  local lock = lock_of(job.type, opts)
  local other = lock and holder(lock)
  if other and other ~= job.id then return false end
  if lock and not other then take(lock, job.id, now) end
  call('HSET', P .. 'job:' .. job.id, 'queue', job.queue, 'named', '1')
  index_scopes(job.id, job.type, scopes_of(opts))
  return true
end

-- Of a job that has no record yet this is all.
local function to_stream(job, again)
  local entry = call('XADD', P .. 'q:' .. job.queue .. (again and ':again' or ''), '*',
    'id', job.id, 'type', job.type, 'data', job.data, 'opts', job.opts)
  call('HSET', P .. 'job:' .. job.id, 'queue', job.queue, 'state', 'pending', 'entry', (again and 'again:' or '') .. entry)
end

local function to_pending(job, again)
  to_stream(job, again)
  call('HDEL', P .. 'job:' .. job.id, 'type', 'data', 'opts', 'due_at', 'consumer', 'claimed_at', 'progress')
end

local function to_waiting(job, state, due, channel)
  call('HSET', P .. 'job:' .. job.id, 'queue', job.queue, 'state', state, 'due_at', int(due),
    'type', job.type, 'data', job.data, 'opts', job.opts)
  call('HDEL', P .. 'job:' .. job.id, 'entry', 'consumer', 'claimed_at', 'progress')
  call('ZADD', P .. 'q:' .. job.queue .. ':' .. state, int(due), job.id)
  local lock = lock_of(job.type, bonds(job.opts))
  if lock then hold_lock(lock, job.id, due) end
  publish_due(channel, due)
end

-- Take a waiting job from where it waits and return it. hash and body, of whoever has read them already.
local function withdraw(id, hash, body)
  hash = hash or fields(P .. 'job:' .. id, 'queue', 'state', 'entry', 'type', 'data', 'opts')
  body = body or hash.entry and read_entry(hash.queue, hash.entry) or hash
  if hash.state == 'pending' then
    drop_entry(hash.queue, hash.entry)
  else
    call('ZREM', P .. 'q:' .. hash.queue .. ':' .. hash.state, id)
  end
  return {id = id, queue = hash.queue, type = body.type or '', data = body.data or '', opts = body.opts or '{}'}
end
