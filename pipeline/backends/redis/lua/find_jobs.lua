#!lua flags=no-writes
-- What is known of jobs.
-- KEYS[1]  prefix of the home
-- ARGV[…]  ids of jobs
-- returns  names and values of its fields, an id; empty where there is no record
-- parts    common bonds seeing
local found = {}
for i, id in ipairs(ARGV) do found[i] = describe(id) or '' end
return found
