-- How long a lease of ours still has.
--
-- KEYS  1 the lock
-- ARGV  1 our token
-- Reply {1, left} in milliseconds (-1: without end), {0} nobody has it, {2} somebody else has it

local value = redis.call('MGET', KEYS[1])[1]
if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  return {1, redis.call('PTTL', KEYS[1])}
end
return {2 * redis.call('EXISTS', KEYS[1])}
