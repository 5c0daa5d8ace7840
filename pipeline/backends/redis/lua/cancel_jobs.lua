#!lua flags=allow-oom
-- scheduled, pending, retry → cancelled; an active job is told to stop.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel
-- ARGV[2…] ids of jobs
-- returns  the state before, an id; empty where it is not known in this home
-- parts    common bonds moving happening ending
local before, changed = {}, false
for i = 2, #ARGV do
  local id = ARGV[i]
  local state = call('HGET', P .. 'job:' .. id, 'state') or tombstone(id) or ''
  if WAITING[state] then
    finish(withdraw(id), {state = 'cancelled', final = true}, ARGV[1])
  elseif state == 'active' then
    call('HSET', P .. 'job:' .. id, 'cancel', '1')
    call('HDEL', P .. 'job:' .. id, 'rerun')
    changed = true
  end
  before[#before + 1] = state
end
if changed then call('PUBLISH', ARGV[1], 'signal') end
return before
