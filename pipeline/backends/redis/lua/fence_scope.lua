#!lua flags=allow-oom
-- Write the fence of a cancel, and stop some of the jobs of the scope that it covers.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel  ARGV[2]  scope: kind|id  ARGV[3]  cut ms  ARGV[4]  at most so many jobs
-- ARGV[5]  member of the index to go on after (empty: from the start)  ARGV[6]  how long the fence is kept ms
-- ARGV[7…] what is covered: job types, or * and the types excluded
-- returns  ids cancelled, ids told to stop, the member to go on after (empty: that was all)
-- parts    common bonds moving happening ending fences
local channel, scope, cut, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local cancelled, told, last, room = {}, {}, '', 1048576

for i = 7, #ARGV do
  local before = tonumber(call('HGET', P .. 'fence:' .. scope, ARGV[i]) or '0')
  if cut > before then call('HSET', P .. 'fence:' .. scope, ARGV[i], int(cut)) end
end
call('PEXPIRE', P .. 'fence:' .. scope, ARGV[6])
call('ZADD', P .. 'fences', 'GT', int(cut), scope)

local function covered(job_type)
  for i = 7, #ARGV do
    if covers(ARGV[i], job_type) then return true end
  end
  return false
end

local function stop(job_type, id)
  local key = P .. 'job:' .. id
  local hash = fields(key, 'state', 'queue', 'entry', 'type', 'data', 'opts', 'named', 'rerun')
  local body = hash.entry and read_entry(hash.queue, hash.entry) or hash
  room = room - #(body.data or '')
  if (tonumber(options(body.opts or '').root_at) or 0) > cut then return end
  local final = (hash.rerun and cjson.decode(hash.rerun).root_at or 0) <= cut
  if WAITING[hash.state] then
    finish(withdraw(id, hash, body), {state = 'cancelled', final = final}, channel, hash)
    cancelled[#cancelled + 1] = id
  elseif hash.state == 'active' then
    call('HSET', key, 'cancel', '1')
    if final then call('HDEL', key, 'rerun') end
    told[#told + 1] = id
  end
end

local from = ARGV[5] == '' and '[' .. scope .. '|' or '(' .. ARGV[5]
local members = call('ZRANGEBYLEX', P .. 'scopes', from, '[' .. scope .. '|\255', 'LIMIT', 0, limit)
for _, member in ipairs(members) do
  local job_type, id = string.match(member, '^[^|]*|[^|]*|(.*)|([^|]*)$')
  if covered(job_type) then stop(job_type, id) end
  if room <= 0 or member == members[limit] then -- there may be more, for the next time
    last = member
    break
  end
end
call('PUBLISH', channel, 'signal')
return {cancelled, told, last}
