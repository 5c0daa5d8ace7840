#!lua
-- new → pending, scheduled; or a duplicate, coalesced with an older one, or covered by a fence.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel
-- ARGV[2]  JSON: a list a job, of id, type, data, opts (without its last brace), queue, root at (0: itself),
--          delay ms, run at (0: none), named, scopes (kind|id), and, where it has a unique key: key, until, ttl s,
--          on_conflict
-- returns  three a job: id, state, duplicate (1 or 0)
-- parts    common bonds moving happening ending fences
local channel, receipts, newest_root = ARGV[1], {}, 0

local function receipt(id, state, duplicate)
  receipts[#receipts + 1], receipts[#receipts + 2], receipts[#receipts + 3] = id, state, duplicate
end

local function note(job, due, root_at, lock, with_data)
  return cjson.encode({due = due, root_at = root_at, data = with_data and job.data or nil, opts = job.opts})
end

-- Whether an older job goes on in place of this one.
local function coalesced(job, lock, on_conflict, due, root_at)
  local id, state = holder(lock)
  if not id then return false end
  if on_conflict == 'replace' and WAITING[state] then
    finish(withdraw(id), {state = 'cancelled', error = 'replaced by ' .. job.id, final = true}, channel)
    return false
  end
  if on_conflict == 'debounce' and (state == 'scheduled' or state == 'retry') then
    call('HSET', P .. 'job:' .. id, 'due_at', int(due))
    hold_lock(lock, id, due)
    call('ZADD', P .. 'q:' .. call('HGET', P .. 'job:' .. id, 'queue') .. ':' .. state, int(due), id)
    publish_due(channel, due)
  elseif on_conflict ~= 'drop' and state == 'active' then
    call('HSET', P .. 'job:' .. id, 'rerun', note(job, due, root_at, lock, on_conflict == 'replace'))
  end
  receipt(id, state, 1)
  return true
end

local function admit(job, root_at, due, named, scopes, lock, on_conflict)
  local known = call('EXISTS', P .. 'job:' .. job.id) == 1 and standing(job.id) or tombstone(job.id)
  if known then return receipt(job.id, known, 1) end
  if root_at == 0 then
    root_at = root_after_fences(scopes)
    newest_root = math.max(newest_root, root_at) -- what is inherited was noted when it was made
    job.opts = job.opts .. ',"root_at":' .. int(root_at)
  elseif fenced(job.type, root_at, scopes) then
    bury(job.id, 'cancelled', named)
    return receipt(job.id, 'cancelled', 0)
  end
  job.opts = job.opts .. (root_at ~= now and ',"enqueued_at":' .. int(now) or '') .. '}'
  if lock then
    if coalesced(job, lock, on_conflict, due, root_at) then return end
    take(lock, job.id, due)
  end
  if named then call('HSET', P .. 'job:' .. job.id, 'named', '1') end
  if due > now then to_waiting(job, 'scheduled', due, channel) else to_stream(job) end
  index_scopes(job.id, job.type, scopes)
  receipt(job.id, due > now and 'scheduled' or 'pending', 0)
end

local all, ids = cjson.decode(ARGV[2]), {}
for i, asked in ipairs(all) do ids[i] = asked[1] end
read_graves(ids)
for _, asked in ipairs(all) do
  local id, job_type, data, opts, queue, root_at, delay, run_at, named, scopes, key, until_, ttl, on_conflict =
    unpack(asked)
  local due = run_at > 0 and math.max(run_at, now) or delay > 0 and now + delay + 1 or now
  local lock = key and {key = P .. 'unique:' .. job_type .. '|' .. key, until_ = until_, ttl = ttl} or nil
  local job = {id = id, type = job_type, data = data, opts = opts, queue = queue}
  admit(job, root_at, due, named, scopes, lock, on_conflict)
end
if newest_root > tonumber(call('HGET', P .. 'meta', 'rooted') or '0') then
  call('HSET', P .. 'meta', 'rooted', int(newest_root))
end
return receipts
