-- The registry of worker processes: KEYS[1] a hash, and beside it until when each one's last word counts.
local UNTIL = KEYS[1] .. ':until'

local function drop_silent()
  local silent = call('ZRANGEBYSCORE', UNTIL, '-inf', int(now), 'LIMIT', 0, 500)
  if #silent > 0 then
    call('HDEL', KEYS[1], unpack(silent))
    call('ZREM', UNTIL, unpack(silent))
  end
  return #silent
end
