#!lua flags=allow-oom
-- active → completed, retry, scheduled, archived, cancelled.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel
-- ARGV[2]  JSON: a list a settlement, of queue, entry, id, consumer, type, state, opts (empty: as they are), delay ms,
--          reason, error, how long a completed job is kept ms
-- returns  the state that resulted, a settlement; empty where the delivery was not current
-- parts    common bonds moving happening ending
local channel, all, states, holdings, done = ARGV[1], cjson.decode(ARGV[2]), {}, {}, {}

-- Which of these entries a consumer holds, in one look. Where it holds far more, they are looked at one by one.
local function look(stream, consumer, ids)
  local limit, held = 4 * #ids, {}
  local page = pcall_('XPENDING', stream, group, '-', '+', limit, consumer)
  for _, one in ipairs(page.err and {} or page) do held[one[1]] = true end
  for _, id in ipairs(#page == limit and ids or {}) do
    held[id] = #call('XPENDING', stream, group, id, id, 1, consumer) == 1
  end
  return held
end

local function settle(queue, entry, id, consumer, job_type, state, opts, delay, reason, error, kept)
  local stream, number = place(queue, entry)
  local held = holdings[stream .. ' ' .. consumer].held
  if not held[number] then return '' end
  held[number] = false
  done[stream] = done[stream] or {}
  table.insert(done[stream], number)
  local hash = fields(P .. 'job:' .. id, 'entry', 'cancel', 'named', 'rerun')
  if hash.entry and hash.entry ~= entry then return '' end
  if hash.cancel and state ~= 'completed' then state = 'cancelled' end
  local gone = state == 'completed' and kept <= 0 and not hash.rerun -- then nobody needs its body any more
  local body = not gone and read_entry(queue, entry) or {type = job_type}
  local job = {id = id, queue = queue, type = body.type or '', data = body.data or '',
    opts = opts ~= '' and opts or body.opts or '{}'}
  if state == 'retry' or state == 'scheduled' then
    if state == 'retry' then count(queue, 'retry') end
    to_waiting(job, state, now + math.max(delay, 0) + 1, channel)
    call('HSET', P .. 'job:' .. id, 'error', error, 'again', state == 'scheduled' and '1' or '')
    happened(id, state == 'retry' and 'failed' or 'snoozed', state == 'retry' and error, consumer)
    return state
  end
  return finish(job, {state = state, reason = reason, error = error, kept_ms = kept, worker = consumer}, channel, hash)
end

for _, said in ipairs(all) do
  local stream, number = place(said[1], said[2])
  local name = stream .. ' ' .. said[4]
  holdings[name] = holdings[name] or {stream = stream, consumer = said[4], ids = {}}
  table.insert(holdings[name].ids, number)
end
for _, one in pairs(holdings) do one.held = look(one.stream, one.consumer, one.ids) end
local fine, problem = pcall(function()
  for i, said in ipairs(all) do states[i] = settle(unpack(said)) end
end)
for stream, numbers in pairs(done) do
  pcall_('XACK', stream, group, unpack(numbers))
  call('XDEL', stream, unpack(numbers))
end
return fine and states or error(problem)
