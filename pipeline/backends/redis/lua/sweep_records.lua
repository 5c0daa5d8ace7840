#!lua flags=allow-oom
-- pending, active → archived (poison) where somebody deleted the entry that the job lay in, as in sweep_scopes.lua. No index
-- leads to those that are in no scope, so the keys of the server are looked through, some at a time.
-- KEYS[1]  prefix of the home
-- ARGV[1]  control channel  ARGV[2]  about so many keys
-- returns  how many
-- parts    common bonds moving happening ending
local LOST = {state = 'archived', reason = 'poison', error = 'its entry was deleted, and with it what it was', final = true}
local STEP, BYTES = 10, 1048576
local cursor, left, bytes, removed = call('HGET', P .. 'meta', 'scanned') or '0', tonumber(ARGV[2]), 0, 0

local function look(id)
  local hash = fields(P .. 'job:' .. id, 'queue', 'entry')
  local body = hash.entry and read_entry(hash.queue, hash.entry)
  if body then bytes = bytes + #(body.data or '') end
  if hash.entry and not body then
    finish({id = id, queue = hash.queue, type = '', data = '', opts = '{}'}, LOST, ARGV[1])
    removed = removed + 1
  end
end

repeat
  local said = call('SCAN', cursor, 'MATCH', P .. 'job:*', 'COUNT', STEP)
  cursor, left = said[1], left - STEP
  for _, key in ipairs(said[2]) do look(string.sub(key, #P + #'job:' + 1)) end
until cursor == '0' or left <= 0 or bytes > BYTES
call('HSET', P .. 'meta', 'scanned', cursor)
return removed
