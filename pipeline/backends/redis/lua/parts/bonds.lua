-- What ties a job to others, its scopes and its unique lock, as options; most text names neither and is not read.
local FREE = {}
local function bonds(text)
  local tied = string.find(text, '"scopes"', 1, true) or string.find(text, '"unique"', 1, true)
  return tied and options(text) or FREE
end

-- Scopes and unique lock are read from the options. Anybody may have written these: what no worker could read is none,
-- and nothing here may fail on it.
local function scopes_of(opts)
  local found = {}
  for _, scope in ipairs(type(opts.scopes) == 'table' and opts.scopes or {}) do
    local kind, id = unpack(type(scope) == 'table' and scope or {}, 1, 2)
    if type(kind) == 'string' and type(id) == 'string' then found[#found + 1] = kind .. '|' .. id end
  end
  return found
end

local function lock_of(job_type, opts)
  local key, ttl, until_ = unpack(type(opts.unique) == 'table' and opts.unique or {}, 1, 3)
  ttl, until_ = ttl == nil and 0 or ttl, until_ == nil and 'done' or until_
  local timed = type(ttl) == 'number' and ttl >= SHORTEST_S and ttl <= LONGEST_S
  if type(key) ~= 'string' or until_ ~= 'done' and until_ ~= 'started' and not (until_ == 'ttl' and timed) then return nil end
  return {key = P .. 'unique:' .. job_type .. '|' .. key, until_ = until_, ttl = ttl}
end

local MOST = 1000 -- members in one command: Lua hands over a few thousand values at most

local function members(id, job_type, scopes, first, score)
  local found = {}
  for i = first, math.min(first + MOST - 1, #scopes) do
    if score then found[#found + 1] = score end
    found[#found + 1] = scopes[i] .. '|' .. job_type .. '|' .. id
  end
  return unpack(found)
end

local function index_scopes(id, job_type, scopes)
  for i = 1, #scopes, MOST do call('ZADD', P .. 'scopes', members(id, job_type, scopes, i, 0)) end
end

local function unindex_scopes(id, job_type, scopes)
  for i = 1, #scopes, MOST do call('ZREM', P .. 'scopes', members(id, job_type, scopes, i)) end
end
