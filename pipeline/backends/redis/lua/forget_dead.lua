#!lua flags=allow-oom
-- Remove deaths that were recorded.
-- KEYS[1]  prefix of the home
-- ARGV[…]  ids of deaths
-- returns  how many were here
-- parts    common
local removed = 0
for _, death in ipairs(ARGV) do
  local entry = call('HGET', P .. 'dead:at', death)
  if entry then
    if call('XDEL', P .. 'dead', entry) == 0 then call('XDEL', P .. 'dead:tended', entry) end
    removed = removed + call('HDEL', P .. 'dead:at', death)
  end
end
return removed
