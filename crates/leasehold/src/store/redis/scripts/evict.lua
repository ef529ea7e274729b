-- Breaks somebody's lease, if its value is still the one that was seen, and hands the lock to the
-- next in line.
--
-- KEYS  1 the counter   2 the lock   3 its line   4 its places   5 its facts   6 its holds
-- ARGV  1 the value that was seen, whole
-- Reply {1} broken, {0} nobody has it, {2} somebody else has it

if redis.call('MGET', KEYS[2])[1] == ARGV[1] then
  redis.call('DEL', KEYS[2], KEYS[5], KEYS[6])
  serve({KEYS[2], KEYS[3], KEYS[4]})
  keep_fence()
  return {1}
end
return {2 * redis.call('EXISTS', KEYS[2])}
