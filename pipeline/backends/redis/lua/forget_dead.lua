#!lua flags=allow-oom
-- Remove deaths that were recorded.
-- KEYS[1]  prefix of the home
-- ARGV[…]  ids of deaths
-- returns  how many were here
-- parts    common
local removed = 0
for _, stream in ipairs({'dead', 'dead:tended'}) do
  local places = P .. stream .. ':at' -- one each: what is written to both in one millisecond may have one entry id
  for _, death in ipairs(ARGV) do
    local entry = call('HGET', places, death)
    if entry then
      removed = removed + call('XDEL', P .. stream, entry)
      call('HDEL', places, death)
    end
  end
end
return removed
