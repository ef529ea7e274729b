-- How long a lease of ours still has.
--
-- KEYS  1 the lock
-- ARGV  1 our token
-- Reply {1, left} in milliseconds (-1: without end), {0} nobody has it, {2} somebody else has it
-- Error WRONGTYPE: somebody else has it, as another type

local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  return {1, redis.call('PTTL', KEYS[1])}
end
return {value and 2 or 0}
