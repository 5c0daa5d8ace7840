-- What the record of a job remembers: the last things that happened to it, oldest first; nothing where it just completes.
local KEPT, ERROR_BYTES, CUT = 20, 512, '...(truncated)'

local function shortened(text)
  if #text <= ERROR_BYTES then return text end
  return string.gsub(string.sub(text, 1, ERROR_BYTES - #CUT), '[\192-\255][\128-\191]*$', '') .. CUT
end

local function happened(id, what, error, worker)
  local key = P .. 'job:' .. id
  local known = options(call('HGET', key, 'history') or '[]')
  known[#known + 1] = {now, what, shortened(error or ''), worker or ''}
  if #known > KEPT then table.remove(known, 1) end
  call('HSET', key, 'history', cjson.encode(known))
end
