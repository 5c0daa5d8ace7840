-- What every transition on jobs begins with. P: the prefix of the home; now: the server's clock, ms.
local P = KEYS[1]
local group = string.match(P, '{(.-)}')
local call, pcall_ = redis.call, redis.pcall
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local WAITING = {scheduled = true, pending = true, retry = true}
local ENDED = {completed = 1, archived = 2, cancelled = 3}
local ENDED_NAME = {'completed', 'archived', 'cancelled'}
local SHORTEST_S, LONGEST_S = 0.001, 100 * 365 * 86400 -- as in contracts/options.py

local function int(number) return string.format('%.0f', number) end

local function options(text)
  local fine, value = pcall(cjson.decode, text)
  return fine and type(value) == 'table' and value or {}
end

-- HMGET as a table; absent fields are nil.
local function fields(key, ...)
  local values, found = call('HMGET', key, ...), {}
  for i, name in ipairs({...}) do found[name] = values[i] or nil end
  return found
end

local function pairs_of(flat)
  local found = {}
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  return found
end

-- An entry is named by its id, with "again:" before it where it lies in the stream of jobs that come again.
local function place(queue, entry)
  local id = string.match(entry, '^again:(.+)$')
  if id then return P .. 'q:' .. queue .. ':again', id end
  return P .. 'q:' .. queue, entry
end

-- A job whose entry names no id that can be used is named by where it lay first.
local function id_of(queue, entry, body)
  local id = body.id
  if id and #id <= 128 and string.find(id, '^[%w._:-]+$') then return id end
  return queue .. ':' .. string.match(entry, '[%d-]+$')
end

-- Options are text that only ever grows at its end: of equal keys the later one counts.
local function with_option(opts, name, value)
  local inner = next(options(opts)) ~= nil and string.match(opts, '^%s*{(.*)}%s*$')
  if inner then return '{' .. inner .. ',"' .. name .. '":' .. value .. '}' end
  return string.match(opts, '^%s*{%s*}%s*$') and '{"' .. name .. '":' .. value .. '}' or opts
end

-- What another language wrote has its root in the moment it was written.
local function rooted(body, id)
  if not string.find(body.opts or '{}', '"root_at"', 1, true) then
    body.opts = with_option(body.opts or '{}', 'root_at', string.match(id, '^%d+'))
  end
  return body
end

local function read_entry(queue, entry)
  local stream, id = place(queue, entry)
  local found = call('XRANGE', stream, id, id)[1]
  return found and rooted(pairs_of(found[2]), id) or nil
end

-- The entry is ours only while the group says so: its id alone comes again when a group is made anew.
local function owned(queue, entry, consumer)
  local stream, id = place(queue, entry)
  local held = pcall_('XPENDING', stream, group, id, id, 1, consumer)
  return not held.err and #held == 1
end

local function drop_entry(queue, entry)
  local stream, id = place(queue, entry)
  pcall_('XACK', stream, group, id)
  call('XDEL', stream, id)
end

-- The scores of tombstones that a script has read together; false where there is none.
local graves = {}
local function read_graves(ids)
  local named, brief = call('ZMSCORE', P .. 'gone', unpack(ids)), call('ZMSCORE', P .. 'gone:brief', unpack(ids))
  for i, id in ipairs(ids) do graves[id] = named[i] or brief[i] end
end

local function tombstone(id)
  if graves[id] == nil then read_graves({id}) end
  return graves[id] and ENDED_NAME[graves[id] % 8] or nil
end
