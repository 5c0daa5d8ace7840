#!lua flags=allow-oom
-- pending, active → archived (poison) where somebody deleted the entry that the job lay in: it would be under way for ever.
-- What has no record any more is in no scope.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel  ARGV[2]  at most so many jobs
-- returns  how many
-- parts    common bonds moving happening ending
local LOST = {state = 'archived', reason = 'poison', error = 'its entry was deleted, and with it what it was', final = true}
local from = call('HGET', P .. 'meta', 'swept')
local members = call('ZRANGEBYLEX', P .. 'scopes', from and '(' .. from or '-', '+', 'LIMIT', 0, ARGV[2])
local removed, bytes, BYTES = 0, 0, 1048576

local function lost(job_type, id)
  local hash = fields(P .. 'job:' .. id, 'queue', 'state', 'entry')
  local body = hash.entry and read_entry(hash.queue, hash.entry)
  if body then bytes = bytes + #(body.data or '') end
  if hash.entry and not body then
    finish({id = id, queue = hash.queue, type = job_type, data = '', opts = '{}'}, LOST, ARGV[1])
  end
  return not hash.state or ENDED[hash.state] or hash.entry and not body
end

call('HDEL', P .. 'meta', 'swept')
for _, member in ipairs(members) do
  if lost(string.match(member, '^[^|]*|[^|]*|(.*)|([^|]*)$')) then removed = removed + call('ZREM', P .. 'scopes', member) end
  if bytes > BYTES or member == members[tonumber(ARGV[2])] then
    call('HSET', P .. 'meta', 'swept', member) -- there may be more, for the next time
    break
  end
end
return removed
