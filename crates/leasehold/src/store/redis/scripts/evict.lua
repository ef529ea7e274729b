-- Breaks somebody's lease, if its value is still the one that was seen.
--
-- KEYS  1 the lock   2 its facts   3 its holds
-- ARGV  1 the value that was seen, whole
-- Reply {1} broken, {0} nobody has it, {2} somebody else has it

if redis.call('MGET', KEYS[1])[1] == ARGV[1] then
  redis.call('DEL', unpack(KEYS))
  return {1}
end
return {2 * redis.call('EXISTS', KEYS[1])}
