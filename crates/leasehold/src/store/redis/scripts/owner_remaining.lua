-- How long a hold of an owner's still has: as long as that at the name where it ends first.
--
-- KEYS  1 the counter; then for each name: lock, line, places, facts, holds
-- ARGV  1 the owner   2 our tag: token, then metadata
-- Reply {1, left} in milliseconds, or {0, which} this hold is not there at one of the names (the
--       first is 1), or {2, which} somebody else has the lock

local least
for i = 1, (#KEYS - 1) / 5 do
  local lock, holds = KEYS[5 * i - 3], KEYS[5 * i + 1]
  if redis.call('MGET', lock)[1] ~= ARGV[1] then
    return {2 * redis.call('EXISTS', lock), i}
  end
  local hold = find(holds, ARGV[2])
  if not hold then
    return {0, i}
  end
  local left = math.max(0, redis.call('ZSCORE', holds, hold) - millis())
  least = math.min(least or left, left)
end
return {1, least}
