#!lua flags=no-writes
-- Some pending or active jobs of a queue, newest first: what is fresh and what comes again, merged. A group delivers in
-- order and what is settled is deleted, so that up to the last delivered entry all are active, and after it all wait.
-- KEYS[1]  prefix of the home
-- ARGV[1]  queue  ARGV[2]  state  ARGV[3]  at most so many (0: only count)
-- ARGV[4]  1 where the entry to go on after comes again  ARGV[5]  its id (empty: from the newest on)
-- ARGV[6]  type  ARGV[7]  scope: kind|id  ARGV[8]  part of the error (empty: any)
-- returns  1 where that was all; of the entry to go on after whether it comes again, and its id; the fields of each job;
--          how many were counted
-- parts    common bonds seeing
local queue, state, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local wanted = {type = ARGV[6], scope = ARGV[7], error = ARGV[8]}
local last, largest = {'', ''}, 0

local function side(again)
  local stream = P .. 'q:' .. queue .. (again and ':again' or '')
  local delivered = reading(stream)
  local from, to = '+', '(' .. delivered
  if state == 'active' then from, to = delivered, '-' end
  -- Of two entries with the same id the one that comes again is first.
  if ARGV[5] ~= '' then from = (not again and ARGV[4] == '1' and '' or '(') .. ARGV[5] end
  return {stream = stream, from = from, to = to, size = 1, entries = {}, at = 1}
end

local function head(one)
  if one.at > #one.entries and one.from then
    one.entries, one.at = call('XREVRANGE', one.stream, one.from, one.to, 'COUNT', one.size), 1
    one.from = #one.entries == one.size and '(' .. one.entries[one.size][1] or nil
    one.size = math.min(one.size * 2, largest < 1024 and 64 or 16) -- few at first, for bodies may be large
  end
  return one.entries[one.at]
end

local function newer(entry, than)
  local a, b = {string.match(entry[1], '(%d+)-(%d+)')}, {string.match(than[1], '(%d+)-(%d+)')}
  if a[1] ~= b[1] then return tonumber(a[1]) > tonumber(b[1]) end
  return tonumber(a[2]) > tonumber(b[2])
end

local function look(entry, name)
  local body = pairs_of(entry[2])
  local bytes = #(body.data or '')
  page.looks, page.bytes, largest = page.looks + 0.7, page.bytes + bytes, math.max(largest, bytes)
  if not matches(body.type, body.opts, wanted) then return end
  local id = id_of(queue, name, body)
  local job = fields(P .. 'job:' .. id, 'state', 'entry', 'error')
  page.looks = page.looks + 0.3
  if job.state ~= state or job.entry ~= name or not failed_so(job.error, wanted) then return end
  page.number = page.number + 1
  if limit > 0 then put(describe(id, body)) end
end

local fresh, again = side(false), side(true)
local a, b = head(fresh), head(again)
while not full(limit) and (a or b) do
  if a and (not b or newer(a, b)) then
    look(a, a[1])
    last, fresh.at = {'0', a[1]}, fresh.at + 1
    a = head(fresh)
  else
    look(b, 'again:' .. b[1])
    last, again.at = {'1', b[1]}, again.at + 1
    b = head(again)
  end
end
return {(a or b) and 0 or 1, last[1], last[2], page.jobs, page.number}
