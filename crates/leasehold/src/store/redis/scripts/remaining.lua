-- How long a lease of ours still has: as long as the lock of it that ends first.
--
-- KEYS  its locks
-- ARGV  1 our token
-- Reply {1, left} in milliseconds (-1: without end), or {0, which} nobody has one of its locks
--       (the first is 1), or {2, which} somebody else has

local values = redis.call('MGET', unpack(KEYS))
local least = -1
for i = 1, #KEYS do
  if not values[i] or string.sub(values[i], 1, #ARGV[1]) ~= ARGV[1] then
    return {2 * redis.call('EXISTS', KEYS[i]), i}
  end
  local left = redis.call('PTTL', KEYS[i])
  if left >= 0 and (least < 0 or left < least) then
    least = left
  end
end
return {1, least}
