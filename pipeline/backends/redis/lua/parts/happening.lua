-- What the record of a job remembers: the last things that happened to it, oldest first; nothing where it just completes.
local KEPT, ERROR_BYTES, CUT = 20, 512, '...(truncated)'

local function shortened(text)
  if #text <= ERROR_BYTES then return text end
  return string.gsub(string.sub(text, 1, ERROR_BYTES - #CUT), '[\192-\255][\128-\191]*$', '') .. CUT
end

local function history_with(id, what, error, worker)
  local text = call('HGET', P .. 'job:' .. id, 'history')
  local known = text and options(text) or {}
  known[#known + 1] = {now, what, shortened(error or ''), worker or ''}
  if #known > KEPT then table.remove(known, 1) end
  return cjson.encode(known)
end

local function happened(id, what, error, worker)
  call('HSET', P .. 'job:' .. id, 'history', history_with(id, what, error, worker))
end
