#!lua flags=allow-oom
-- archived, completed, cancelled → gone; their last state is remembered.
-- KEYS[1]  prefix of the home
-- ARGV[…]  ids of jobs
-- returns  the state before, an id; empty where there is no record
-- parts    common bonds moving happening ending
local before = {}
for i, id in ipairs(ARGV) do
  local hash = fields(P .. 'job:' .. id, 'state', 'queue')
  if hash.state and ENDED[hash.state] then forget(id, hash.queue, hash.state, true) end
  before[i] = hash.state or ''
end
return before
