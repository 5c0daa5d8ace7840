#!lua flags=no-writes
-- The cut of a cancel that happens now: not before any root there ever was, for a root may lie a little ahead of the clock.
-- KEYS[1]  prefix of the home
-- returns  ms
-- parts    common
return int(math.max(now, tonumber(call('HGET', P .. 'meta', 'rooted') or '0')))
