#!lua flags=allow-oom
-- active → pending, nothing counted, ahead of fresh entries; what was told to stop is cancelled.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel
-- ARGV[2…] four a delivery: queue, entry, id, consumer
-- returns  how many were still theirs
-- parts    common bonds moving happening ending
local released = 0
for i = 2, #ARGV, 4 do
  local queue, entry, id, consumer = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if owned(queue, entry, consumer) then
    local hash, body = fields(P .. 'job:' .. id, 'entry', 'cancel'), read_entry(queue, entry)
    if body and (not hash.entry or hash.entry == entry) then
      local job = {id = id, queue = queue, type = body.type or '', data = body.data or '', opts = body.opts or '{}'}
      if hash.cancel then finish(job, {state = 'cancelled', worker = consumer}, ARGV[1]) else to_pending(job, true) end
      released = released + 1
    end
    drop_entry(queue, entry)
  end
end
return released
