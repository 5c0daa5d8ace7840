#!lua flags=no-writes
-- What stands before a job that waits, or was given up. What comes again and what is fresh are delivered alternately.
-- KEYS[1]  prefix of the home
-- ARGV[1]  id  ARGV[2]  at most so many others are counted
-- returns  whether its queue is paused (1 or 0); the scope whose fence will stop it (empty: none); how many of its queue
--          come before it; 1 where there may be more
-- parts    common bonds seeing fences
local id, most = ARGV[1], tonumber(ARGV[2])
local hash = fields(P .. 'job:' .. id, 'queue', 'entry', 'state', 'type', 'opts')
if not WAITING[hash.state] and hash.state ~= 'archived' then return {0, '', 0, 0} end
local body = hash.entry and read_entry(hash.queue, hash.entry) or hash
local opts = options(body.opts or '')
local bytes, covered, more = 0, '', 0

for _, scope in ipairs(scopes_of(opts)) do
  if fenced(body.type, tonumber(opts.root_at) or 0, {scope}) then covered = scope end
end

local function count(stream, from, to)
  local number = 0
  while number < most and bytes < BYTES do
    local some = call('XRANGE', stream, from, to, 'COUNT', 16)
    if #some == 0 then return number end
    for _, entry in ipairs(some) do bytes = bytes + #(pairs_of(entry[2]).data or '') end
    number, from = number + #some, '(' .. some[#some][1]
  end
  more = 1
  return math.min(number, most)
end

local ahead = 0
if hash.entry then
  local stream, number = place(hash.queue, hash.entry)
  local fresh = P .. 'q:' .. hash.queue
  local other = stream == fresh and fresh .. ':again' or fresh
  ahead = count(stream, '(' .. reading(stream), '(' .. number)
  local _, held = reading(other)
  ahead = ahead + math.min(math.max(call('XLEN', other) - held, 0), ahead + 1)
end
return {call('SISMEMBER', P .. 'paused', hash.queue), covered, ahead, more}
