#!lua flags=no-writes
-- The worker processes that live.
-- KEYS[1]  the registry
-- returns  when it last spoke, a space and what it said, a worker
-- parts    common beating
local living = call('ZRANGEBYSCORE', UNTIL, '(' .. int(now), '+inf')
local said = {}
for _, worker in ipairs(living) do said[#said + 1] = call('HGET', KEYS[1], worker) or nil end
return said
