#!lua flags=allow-oom
-- active → completed, retry, scheduled, archived, cancelled.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel
-- ARGV[2]  JSON: a list a settlement, of queue, entry, id, consumer, state, opts (empty: as they are), delay ms, reason,
--          error, how long a completed job is kept ms
-- returns  the state that resulted, a settlement; empty where the delivery was not current
-- parts    common moving ending
local channel, states = ARGV[1], {}

local function settle(queue, entry, id, consumer, state, opts, delay, reason, error, kept)
  if not owned(queue, entry, consumer) then return '' end
  local hash = fields(P .. 'job:' .. id, 'entry', 'cancel')
  if hash.entry and hash.entry ~= entry then
    drop_entry(queue, entry)
    return ''
  end
  local body = read_entry(queue, entry) or {}
  local job = {id = id, queue = queue, type = body.type or '', data = body.data or '',
    opts = opts ~= '' and opts or body.opts or '{}'}
  if hash.cancel and state ~= 'completed' then state = 'cancelled' end
  if state == 'retry' then count(queue, 'retry') end
  if state == 'retry' or state == 'scheduled' then
    to_waiting(job, state, now + math.max(delay, 0) + 1, channel)
    call('HSET', P .. 'job:' .. id, 'error', error, 'again', state == 'scheduled' and '1' or '')
  else
    state = finish(job, {state = state, reason = reason, error = error, kept_ms = kept}, channel)
  end
  drop_entry(queue, entry)
  return state
end

for i, said in ipairs(cjson.decode(ARGV[2])) do states[i] = settle(unpack(said)) end
return states
