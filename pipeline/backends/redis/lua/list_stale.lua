#!lua flags=allow-oom
-- What no worker has renewed for a lease. After a time without any look longer than half a lease nothing is stale for one
-- whole lease: the healthy need it to say so.
-- KEYS[1]  prefix of the home
-- ARGV[1]  lease ms  ARGV[2]  at most so many
-- ARGV[3…] the queues of the home
-- returns  now; then seven a delivery: queue, entry, consumer, id (empty: somebody deleted the entry), type, opts, told to cancel (1 or 0)
-- parts    common
local lease, left, stale, room = tonumber(ARGV[1]), tonumber(ARGV[2]), {int(now)}, 1048576
local meta = fields(P .. 'meta', 'reclaimed_at', 'quiet_until')
local last, quiet = tonumber(meta.reclaimed_at or '0'), tonumber(meta.quiet_until or '0')
if now < last or now > last + math.floor(lease / 2) or quiet > now + lease then quiet = now + lease end
call('HSET', P .. 'meta', 'reclaimed_at', int(now), 'quiet_until', int(quiet))

-- The clock was set back: what was delivered in its future would not look idle until it has caught up.
local function deliver_now(stream)
  local from, found = '-', nil
  repeat
    found = pcall_('XPENDING', stream, group, from, '+', 500)
    for _, held in ipairs(found.err and {} or found) do
      call('XCLAIM', stream, group, held[2], 0, held[1], 'JUSTID')
      from = '(' .. held[1]
    end
  until found.err or #found < 500
end

for i = 3, now < last and #ARGV or 0 do
  deliver_now(P .. 'q:' .. ARGV[i])
  deliver_now(P .. 'q:' .. ARGV[i] .. ':again')
end
if now < quiet then return stale end

local function look(queue, again)
  local stream = P .. 'q:' .. queue .. (again and ':again' or '')
  local found = pcall_('XPENDING', stream, group, 'IDLE', lease, '-', '+', left)
  if found.err then return end
  for _, held in ipairs(found) do
    if room <= 0 then break end -- bodies are large: the next time
    local entry = (again and 'again:' or '') .. held[1]
    local body = read_entry(queue, entry)
    room = room - #(body and body.data or '')
    local id = body and id_of(queue, entry, body)
    local hash = id and fields(P .. 'job:' .. id, 'queue', 'entry', 'cancel') or {}
    local values = {queue, entry, held[2], id or '', body and body.type or '', body and body.opts or '{}', hash.cancel and '1' or '0'}
    local theirs = hash.entry == entry or id and not hash.queue -- it has no record where a claim got stuck before it
    if not theirs then drop_entry(queue, entry) end -- gone, or a copy of what lies elsewhere
    if theirs or not body then
      for _, value in ipairs(values) do stale[#stale + 1] = value end
      left = left - 1
    end
  end
end

for i = 3, #ARGV do
  if left > 0 and room > 0 then look(ARGV[i], true) end
  if left > 0 and room > 0 then look(ARGV[i], false) end
end
return stale
