-- Jobs as people and tools see them, and streams as their group has read them.
local SHOWN = {'queue', 'state', 'due_at', 'claimed_at', 'ended_at', 'consumer', 'reason', 'error', 'cancel', 'progress',
  'history'}
local LOOKS, BYTES = 300, 1048576 -- what one page costs at most, so that nobody waits long for it: records read, and bytes
local page = {jobs = {}, number = 0, looks = 0, bytes = 0}

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

-- To read the options of every job takes long, so they are searched first: as we write them, then for the id at all.
local function in_scope(opts, kind, id)
  if string.find(opts, '["' .. kind .. '","' .. id .. '"]', 1, true) then return true end
  if not string.find(opts, '"' .. id .. '"', 1, true) then return false end
  for _, scope in ipairs(scopes_of(options(opts))) do
    if scope == kind .. '|' .. id then return true end
  end
  return false
end

-- Whether a page takes this in. wanted: type, scope; empty means any.
local function matches(job_type, opts, wanted)
  if wanted.type ~= '' and job_type ~= wanted.type then return false end
  return wanted.scope == '' or in_scope(opts or '', string.match(wanted.scope, '^(.-)|(.*)$'))
end

-- wanted: part of the error.
local function failed_so(error, wanted)
  return wanted.error == '' or string.find(error or '', wanted.error, 1, true) ~= nil
end

local function put(flat)
  page.jobs[#page.jobs + 1] = flat
  page.bytes = page.bytes + #flat[6] + #flat[8]
end

-- A limit of nothing: the page only counts.
local function full(limit)
  return limit > 0 and #page.jobs >= limit or page.looks >= LOOKS or page.bytes >= BYTES
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
