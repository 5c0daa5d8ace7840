-- Jobs as people and tools see them, and streams as their group has read them.
local SHOWN = {'queue', 'state', 'due_at', 'claimed_at', 'ended_at', 'consumer', 'reason', 'error', 'cancel', 'progress',
  'history'}
local LOOKS, BYTES = 300, 1048576 -- what one page costs at most, so that nobody waits long for it
local page = {jobs = {}, looks = 0, bytes = 0}

-- A job as a flat list of fields; nil where there is no record. `body` is for whoever has read it already.
local function describe(id, body)
  local job = fields(P .. 'job:' .. id, 'entry', 'type', 'data', 'opts', unpack(SHOWN))
  if not job.state then return nil end
  body = body or job.entry and read_entry(job.queue, job.entry) or job
  local flat = {'id', id, 'type', body.type or '', 'data', body.data or '', 'opts', body.opts or '{}'}
  for _, name in ipairs(SHOWN) do
    if job[name] then flat[#flat + 1], flat[#flat + 2] = name, job[name] end
  end
  return flat
end

-- Whether a page takes this in. wanted: type, scope, part of the error; empty means any.
local function matches(job_type, error, opts, wanted)
  if wanted.type ~= '' and job_type ~= wanted.type then return false end
  if wanted.error ~= '' and not string.find(error or '', wanted.error, 1, true) then return false end
  for _, scope in ipairs(wanted.scope ~= '' and scopes_of(options(opts or '')) or {}) do
    if scope == wanted.scope then return true end
  end
  return wanted.scope == ''
end

local function put(flat)
  page.jobs[#page.jobs + 1] = flat
  page.bytes = page.bytes + #flat[6] + #flat[8]
end

local function full(limit)
  return #page.jobs >= limit or page.looks >= LOOKS or page.bytes >= BYTES
end

-- How far the group has read a stream, and how many of that are not settled.
local function reading(stream)
  local groups = pcall_('XINFO', 'GROUPS', stream)
  for _, one in ipairs(groups.err and {} or groups) do
    local info = pairs_of(one)
    if info.name == group then return info['last-delivered-id'], info.pending end
  end
  return '0-0', 0
end

-- Whether a scope (kind|id) has a job that lives, of one of these types; of any where none is named.
local function lives(scope, types)
  for _, prefix in ipairs(#types > 0 and types or {''}) do
    local from = '[' .. scope .. '|' .. (prefix ~= '' and prefix .. '|' or '')
    if #call('ZRANGEBYLEX', P .. 'scopes', from, from .. '\255', 'LIMIT', 0, 1) > 0 then return true end
  end
  return false
end
