#!lua flags=allow-oom
-- Note of deaths that only their row is missing.
-- KEYS[1]  prefix of the home
-- ARGV[…]  ids of deaths
-- returns  how many were here
-- parts    common
local moved = 0
for _, death in ipairs(ARGV) do
  local entry = call('HGET', P .. 'dead:at', death)
  local found = entry and call('XRANGE', P .. 'dead', entry, entry) or {}
  if #found > 0 then
    local copy = call('XADD', P .. 'dead:tended', '*', unpack(found[1][2]))
    call('HSET', P .. 'dead:tended:at', death, copy)
    call('HDEL', P .. 'dead:at', death)
    moved = moved + call('XDEL', P .. 'dead', entry)
  end
end
return moved
