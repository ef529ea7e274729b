-- Breaks somebody's lease, if its value is still the one that was seen.
--
-- KEYS  1 the lock   2 its facts
-- ARGV  1 the value that was seen, whole
-- Reply {1} broken, {0} nobody has it, {2} somebody else has it
-- Error WRONGTYPE: somebody else has it, as another type

local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('DEL', KEYS[1], KEYS[2])
  return {1}
end
return {value and 2 or 0}
