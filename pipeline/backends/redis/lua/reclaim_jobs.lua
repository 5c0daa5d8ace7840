#!lua flags=allow-oom
-- active → pending (crashes + 1), archived (worker_lost) or cancelled, where the lease has ended.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel  ARGV[2]  lease ms
-- ARGV[3…] eight a delivery: queue, entry, consumer, id, state, opts (empty: as they are), reason, error
-- returns  the state that resulted, a delivery; empty where it was renewed or settled meanwhile
-- parts    common bonds moving happening ending
local channel, lease, states = ARGV[1], ARGV[2], {}

local function reclaim(queue, entry, consumer, id, state, opts, reason, error)
  local stream, number = place(queue, entry)
  local idle = pcall_('XPENDING', stream, group, 'IDLE', lease, number, number, 1, consumer)
  local body = read_entry(queue, entry)
  if idle.err or #idle == 0 or not body then return '' end
  local hash = fields(P .. 'job:' .. id, 'queue', 'entry', 'cancel')
  local job = {id = id, queue = queue, type = body.type or '', data = body.data or '',
    opts = opts ~= '' and opts or body.opts or '{}'}
  if hash.queue and hash.entry ~= entry or not hash.queue and not adopt(job) then
    drop_entry(queue, entry)
    return ''
  end
  if hash.cancel then state = 'cancelled' end
  if state == 'pending' then
    to_pending(job, true)
    happened(id, 'lost', error, consumer)
  else
    state = finish(job, {state = state, reason = reason, error = error, worker = consumer}, channel)
  end
  drop_entry(queue, entry)
  return state
end

for i = 3, #ARGV, 8 do
  states[#states + 1] = reclaim(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5],
    ARGV[i + 6], ARGV[i + 7])
end
return states
