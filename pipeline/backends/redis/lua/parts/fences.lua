-- What a cancel of a scope keeps from being enqueued, and from starting. Each scope is read once a script.
local newest_cut = tonumber(call('ZREVRANGE', P .. 'fences', 0, 0, 'WITHSCORES')[2] or '-1')
local fence_rows = {}

local function fence_of(scope)
  local rows = fence_rows[scope]
  if not rows then
    rows = pairs_of(call('HGETALL', P .. 'fence:' .. scope))
    fence_rows[scope] = rows
  end
  return rows
end

local function covers(row, job_type)
  if string.sub(row, 1, 1) ~= '*' then return row == job_type end
  for excluded in string.gmatch(string.sub(row, 2), '[^,]+') do
    if excluded == job_type then return false end
  end
  return true
end

local function fenced(job_type, root_at, scopes)
  if root_at > newest_cut then return false end
  for _, scope in ipairs(scopes) do
    for row, cut in pairs(fence_of(scope)) do
      if root_at <= tonumber(cut) and covers(row, job_type) then return true end
    end
  end
  return false
end

-- A root is enqueued after every fence there is, even within the same millisecond, so it is put after them.
local function root_after_fences(scopes)
  local root = now
  if newest_cut >= now then
    for _, scope in ipairs(scopes) do
      for _, cut in pairs(fence_of(scope)) do root = math.max(root, tonumber(cut) + 1) end
    end
  end
  return root
end
