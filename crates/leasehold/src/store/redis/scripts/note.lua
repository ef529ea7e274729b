-- Renews leases that are still ours, and notes down the facts that an operator may ask for.
--
-- KEYS  for each lock: the lock, its facts
-- ARGV  for each lock: our token, TTL in milliseconds, fence, milliseconds held so far,
--       milliseconds that the facts live
-- Reply for each lock: 1 renewed, 0 nobody has it, 2 somebody else has it
--
-- The first write of each lock is a PEXPIRE: after it a full server lets the SET pass too.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = {}
for i = 1, #KEYS / 2 do
  local lock, facts, arg = KEYS[2 * i - 1], KEYS[2 * i], 5 * (i - 1)
  local token = ARGV[arg + 1]
  local value = redis.call('MGET', lock)[1]
  if value and string.sub(value, 1, #token) == token then
    redis.call('PEXPIRE', lock, ARGV[arg + 2])
    local since = string.format('%.0f', now - ARGV[arg + 4])
    local note = table.concat({ARGV[arg + 3], since, ARGV[arg + 2], token}, ' ')
    redis.call('SET', facts, note, 'PX', ARGV[arg + 5])
    reply[i] = 1
  else
    reply[i] = 2 * redis.call('EXISTS', lock)
  end
end
return reply
