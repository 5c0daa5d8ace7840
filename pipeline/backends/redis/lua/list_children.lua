#!lua flags=no-writes
-- Some jobs of a scope that have not ended and descend from a job directly.
-- KEYS[1]  prefix of the home
-- ARGV[1]  scope: kind|id  ARGV[2]  id of the job  ARGV[3]  at most so many
-- ARGV[4]  member of the index to go on after (empty: from the start)
-- returns  the member to go on after (empty: that was all); the fields of each job
-- parts    common bonds seeing
local scope, parent, limit, last = ARGV[1], ARGV[2], tonumber(ARGV[3]), ''
local from = ARGV[4] == '' and '[' .. scope .. '|' or '(' .. ARGV[4]
local members = call('ZRANGEBYLEX', P .. 'scopes', from, '[' .. scope .. '|\255', 'LIMIT', 0, LOOKS)

local function look(id)
  local hash = fields(P .. 'job:' .. id, 'state', 'queue', 'entry', 'opts')
  local body = hash.entry and read_entry(hash.queue, hash.entry) or hash
  page.looks, page.bytes = page.looks + 1, page.bytes + #(body.data or '')
  local tied = string.find(body.opts or '', '"parent_id"', 1, true)
  if hash.state and tied and options(body.opts).parent_id == parent then put(describe(id, hash.entry and body or nil)) end
end

for _, member in ipairs(members) do
  if full(limit) then break end
  look(string.match(member, '[^|]*$'))
  last = member
end
if #members < LOOKS and last == members[#members] then last = '' end
return {last, page.jobs}
