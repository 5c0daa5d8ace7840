#!lua flags=allow-oom
-- archived → gone, some of a queue.
-- KEYS[1]  prefix of the home
-- ARGV[1]  queue  ARGV[2]  at most so many
-- returns  how many
-- parts    common bonds moving happening ending
local ids = call('ZRANGE', P .. 'q:' .. ARGV[1] .. ':archived', 0, tonumber(ARGV[2]) - 1)
for _, id in ipairs(ids) do forget(id, ARGV[1], 'archived', true) end
return #ids
