#!lua flags=no-writes
-- Where jobs stand; a tombstone counts.
-- KEYS[1]  prefix of the home
-- ARGV[…]  ids of jobs
-- returns  the state, an id; empty where it is not known in this home
-- parts    common
local states = {}
for i, id in ipairs(ARGV) do states[i] = call('HGET', P .. 'job:' .. id, 'state') or tombstone(id) or '' end
return states
