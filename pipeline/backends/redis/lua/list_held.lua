#!lua flags=no-writes
-- What is active in a consumer's name.
-- KEYS[1]  prefix of the home
-- ARGV[1]  consumer
-- ARGV[2…] queues of the home
-- returns  seven a job: queue, entry, id, type, data, opts, claimed at
-- parts    common
local held = {}
for i = 2, #ARGV do
  for _, again in ipairs({true, false}) do
    local found = pcall_('XPENDING', P .. 'q:' .. ARGV[i] .. (again and ':again' or ''), group, '-', '+', 10000, ARGV[1])
    for _, one in ipairs(found.err and {} or found) do
      local entry = (again and 'again:' or '') .. one[1]
      local body = read_entry(ARGV[i], entry) or {}
      local id = id_of(ARGV[i], entry, body)
      local hash = fields(P .. 'job:' .. id, 'entry', 'claimed_at')
      if hash.entry == entry then
        local values = {ARGV[i], entry, id, body.type or '', body.data or '', body.opts or '{}', hash.claimed_at or '0'}
        for _, value in ipairs(values) do held[#held + 1] = value end
      end
    end
  end
end
return held
