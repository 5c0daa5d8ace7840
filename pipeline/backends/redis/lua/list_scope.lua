#!lua flags=no-writes
-- Where some jobs of a scope stand that have not ended: for a scope of few jobs among many.
-- KEYS[1]  prefix of the home
-- ARGV[1]  scope: kind|id  ARGV[2]  type (empty: any)  ARGV[3]  queue  ARGV[4]  state  ARGV[5]  part of the error (empty: any)
-- ARGV[6]  member of the index to go on after (empty: from the start)
-- returns  the member to go on after (empty: that was all); two a job: id, and its entry, or when it is due
-- parts    common bonds seeing
local scope, wanted, found = ARGV[1] .. '|' .. (ARGV[2] ~= '' and ARGV[2] .. '|' or ''), {error = ARGV[5]}, {}
local from = ARGV[6] == '' and '[' .. scope or '(' .. ARGV[6]
local members = call('ZRANGEBYLEX', P .. 'scopes', from, '[' .. scope .. '\255', 'LIMIT', 0, LOOKS)
for _, member in ipairs(members) do
  local id = string.match(member, '[^|]*$')
  local job = fields(P .. 'job:' .. id, 'state', 'queue', 'entry', 'due_at', 'error')
  if job.state == ARGV[4] and job.queue == ARGV[3] and failed_so(job.error, wanted) then
    found[#found + 1], found[#found + 2] = id, job.entry or job.due_at
  end
end
return {members[LOOKS] or '', found}
