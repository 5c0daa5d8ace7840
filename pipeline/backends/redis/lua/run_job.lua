#!lua
-- scheduled, retry, archived → pending.
-- KEYS[1]  prefix of the home
-- ARGV[1]  id  ARGV[2]  the state it was seen in  ARGV[3]  opts to go on with (empty: as they are)
-- returns  ok; changed (look again); fenced; or the id of the job that has its unique key now
-- parts    common bonds moving happening fences
local id, seen = ARGV[1], ARGV[2]
local key = P .. 'job:' .. id
local hash = fields(key, 'state', 'queue', 'type', 'data', 'opts')
if hash.state ~= seen then return 'changed' end
local job = {id = id, queue = hash.queue, type = hash.type, data = hash.data, opts = ARGV[3] ~= '' and ARGV[3] or hash.opts}
local opts = options(job.opts)
local scopes = scopes_of(opts)
if seen == 'archived' then
  if fenced(job.type, tonumber(opts.root_at) or 0, scopes) then return 'fenced' end
  local lock = lock_of(job.type, opts)
  if lock and lock.until_ == 'done' then
    local other = holder(lock)
    if other then return other end
    take(lock, id, now)
  end
  index_scopes(id, job.type, scopes)
  call('HDEL', key, 'error')
end
call('HDEL', key, 'reason', 'ended_at')
to_pending(job, true)
happened(id, 'run_now')
call('ZREM', P .. 'q:' .. job.queue .. ':' .. seen, id)
return 'ok'
