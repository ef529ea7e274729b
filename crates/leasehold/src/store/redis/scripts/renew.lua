-- Renews leases that are still ours; never makes a key.
--
-- KEYS  the locks
-- ARGV  for each lock: our token, TTL in milliseconds
-- Reply for each lock: 1 renewed, 0 nobody has it, 2 somebody else has it

if #KEYS == 0 then
  return {}
end
local values = redis.call('MGET', unpack(KEYS))
local reply = {}
for i = 1, #KEYS do
  local token = ARGV[2 * i - 1]
  if values[i] and string.sub(values[i], 1, #token) == token then
    redis.call('PEXPIRE', KEYS[i], ARGV[2 * i])
    reply[i] = 1
  else
    reply[i] = 2 * redis.call('EXISTS', KEYS[i])
  end
end
return reply
