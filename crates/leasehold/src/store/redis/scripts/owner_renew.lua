-- Renews holds of owners that are still there; never makes a lock, nor a hold.
--
-- KEYS  1 the counter; then for each name: lock, line, places, facts, holds
-- ARGV  for each name: the owner, our tag (token, then metadata), TTL in milliseconds
-- Reply for each name: 1 renewed, 0 this hold is not there, 2 somebody else has the lock

local reply = {}
for i = 1, (#KEYS - 1) / 5 do
  local lock, facts, holds = KEYS[5 * i - 3], KEYS[5 * i], KEYS[5 * i + 1]
  local owner, tag, ttl = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  if redis.call('MGET', lock)[1] ~= owner then
    reply[i] = 2 * redis.call('EXISTS', lock)
  else
    local hold = find(holds, tag)
    if hold then
      redis.call('ZADD', holds, millis() + ttl, hold)
      settle(lock, facts, holds)
    end
    reply[i] = hold and 1 or 0
  end
end
return reply
