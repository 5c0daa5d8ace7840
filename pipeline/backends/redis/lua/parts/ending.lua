-- How a job ends, whoever ends it: record, unique lock, scopes, tombstone, dead letter and count, all in one place.
local STATS_MS = 91 * 86400000

local dated = {}
local function count(queue, state)
  local key = P .. 'stats:' .. queue .. ':' .. int(math.floor(now / 86400000))
  local hour = ':' .. int(math.floor(now / 3600000) % 24)
  if state ~= 'cancelled' then call('HINCRBY', key, 'processed' .. hour, 1) end
  if state == 'retry' or state == 'archived' then call('HINCRBY', key, 'failed' .. hour, 1) end
  if state == 'cancelled' then call('HINCRBY', key, 'cancelled' .. hour, 1) end
  if not dated[key] then call('PEXPIRE', key, int(STATS_MS)) end
  dated[key] = true
end

local function bury(id, state, named)
  graves[id] = nil
  call('ZADD', P .. (named and 'gone' or 'gone:brief'), int(now * 8 + ENDED[state]), id)
end

-- Remove the record of a job that has ended; a person's delete is remembered like a given id.
local function forget(id, queue, state, named)
  call('ZREM', P .. 'q:' .. queue .. ':' .. state, id)
  call('ZREM', P .. 'expiring', id)
  call('DEL', P .. 'job:' .. id)
  bury(id, state, named)
end

local function write_dead(job, reason, error)
  local died = call('HINCRBY', P .. 'job:' .. job.id, 'died', 1)
  local death = job.id .. ':' .. died
  job.opts = with_option(job.opts, 'died', died)
  local entry = call('XADD', P .. 'dead', '*', 'death_id', death, 'queue', job.queue, 'id', job.id, 'type', job.type,
    'data', job.data, 'opts', job.opts, 'reason', reason, 'error', error, 'died_at', int(now))
  call('HSET', P .. 'dead:at', death, entry)
end

-- The enqueue that waited for this end has its turn: the job lives on as that one.
local function run_again(job, note_text, channel)
  local note = cjson.decode(note_text)
  local due = math.max(note.due, now)
  local data = type(note.data) == 'string' and note.data or job.data
  unindex_scopes(job.id, job.type, scopes_of(bonds(job.opts)))
  local opts = bonds(note.opts)
  call('HDEL', P .. 'job:' .. job.id, 'rerun', 'cancel', 'error')
  happened(job.id, 'rerun')
  to_waiting({id = job.id, queue = job.queue, type = job.type, data = data, opts = note.opts}, 'scheduled', due, channel)
  index_scopes(job.id, job.type, scopes_of(opts))
  local lock = lock_of(job.type, opts)
  if lock then take(lock, job.id, due) end
end

-- how: state, reason, error, kept_ms, worker (who had it), final (what waits for the end is dropped with the job). hash: named and rerun, of
-- whoever has read them. Returns the state.
local function finish(job, how, channel, hash)
  local key = P .. 'job:' .. job.id
  hash = hash or fields(key, 'named', 'rerun')
  count(job.queue, how.state)
  if hash.rerun and not how.final then
    run_again(job, hash.rerun, channel)
    return 'scheduled'
  end
  local opts = bonds(job.opts)
  unlock(job, opts)
  unindex_scopes(job.id, job.type, scopes_of(opts))
  if how.state == 'completed' and how.kept_ms <= 0 then
    call('DEL', key)
    bury(job.id, 'completed', hash.named)
    return 'completed'
  end
  local reason = how.state == 'archived' and how.reason or '' -- a cancel says nothing of what it forestalled
  if how.state == 'archived' then write_dead(job, reason, how.error) end
  call('HSET', key, 'queue', job.queue, 'state', how.state, 'ended_at', int(now), 'reason', reason,
    'error', how.error or '', 'type', job.type, 'data', job.data, 'opts', job.opts,
    unpack(how.state ~= 'completed' and {'history', history_with(job.id, how.state, how.error, how.worker)} or {}))
  call('HDEL', key, 'entry', 'due_at', 'consumer', 'cancel', 'rerun')
  call('ZADD', P .. 'q:' .. job.queue .. ':' .. how.state, int(now), job.id)
  if how.state == 'completed' then call('ZADD', P .. 'expiring', int(now + how.kept_ms), job.id) end
  return how.state
end
