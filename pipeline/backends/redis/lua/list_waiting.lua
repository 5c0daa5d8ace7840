#!lua flags=no-writes
-- Some jobs of a queue that are in no stream: scheduled and retry by due time, the ended newest first.
-- KEYS[1]  prefix of the home
-- ARGV[1]  queue  ARGV[2]  state  ARGV[3]  at most so many (0: only count)
-- ARGV[4]  time  ARGV[5]  id of the job to go on after (empty: from the first on)
-- ARGV[6]  type  ARGV[7]  scope: kind|id  ARGV[8]  part of the error (empty: any)
-- returns  1 where that was all; time and id of the job to go on after; the fields of each job; how many were counted
-- parts    common bonds seeing
local queue, state, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local wanted = {type = ARGV[6], scope = ARGV[7], error = ARGV[8]}
local key, last = P .. 'q:' .. queue .. ':' .. state, {'', ''}
local size, step = call('ZCARD', key), WAITING[state] and 1 or -1

-- Byte by byte, as Redis does; `<` follows the locale.
local function before(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Many may share a time, and the job to go on after may be gone: its rank is looked for among them.
local function start()
  if ARGV[5] == '' then return step == 1 and 0 or size - 1 end
  local low, high = call('ZCOUNT', key, '-inf', '(' .. ARGV[4]), call('ZCOUNT', key, '-inf', ARGV[4])
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(call('ZRANGE', key, middle, middle)[1], ARGV[5]) then low = middle + 1 else high = middle end
  end
  if step == -1 then return low - 1 end
  return tonumber(call('ZSCORE', key, ARGV[5])) == tonumber(ARGV[4]) and low + 1 or low
end

local function look(id)
  local job = fields(P .. 'job:' .. id, 'state', 'type', 'error', 'opts')
  page.looks = page.looks + 1
  if job.state ~= state or not failed_so(job.error, wanted) or not matches(job.type, job.opts, wanted) then return end
  page.number = page.number + 1
  if limit > 0 then put(describe(id)) end
end

local rank, SOME = start(), 50
while not full(limit) and rank >= 0 and rank < size do
  local from = step == 1 and rank or math.max(rank - SOME + 1, 0)
  local some = call('ZRANGE', key, from, step == 1 and rank + SOME - 1 or rank, 'WITHSCORES')
  for i = step == 1 and 1 or #some - 1, step == 1 and #some or 1, 2 * step do
    if full(limit) then break end
    look(some[i])
    rank, last = rank + step, {int(some[i + 1]), some[i]}
  end
end
return {rank >= 0 and rank < size and 0 or 1, last[1], last[2], page.jobs, page.number}
