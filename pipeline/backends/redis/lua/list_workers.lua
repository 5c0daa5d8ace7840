#!lua flags=no-writes
-- The worker processes that live.
-- KEYS[1]  the registry
-- returns  when it last spoke, a space and what it said, a worker
-- parts    common beating
local living = call('ZRANGEBYSCORE', UNTIL, '(' .. int(now), '+inf')
return #living > 0 and call('HMGET', KEYS[1], unpack(living)) or {}
