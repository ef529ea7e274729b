-- Gives a lease back, if it is ours.
--
-- KEYS  1 the lock   2 its facts, if any were noted down
-- ARGV  1 our token
-- Reply {1} released, {0} nobody has it, {2} somebody else has it
-- Error WRONGTYPE: somebody else has it, as another type

local value = redis.call('GET', KEYS[1])
if value == ARGV[1] or value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  redis.call('DEL', unpack(KEYS))
  return {1}
end
return {value and 2 or 0}
