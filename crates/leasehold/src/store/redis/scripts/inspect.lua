-- Who holds a lock.
--
-- KEYS  1 the lock   2 its facts
-- Reply {0}                      nobody
--       {2, left, value, facts}  somebody, for so many milliseconds (-1: without end);
--                                facts are '' or 'fence since ttl token', times in
--                                milliseconds
--       {3, type}                the key is no lock

local seen = redis.call('MGET', KEYS[1], KEYS[2])
if seen[1] then
  return {2, redis.call('PTTL', KEYS[1]), seen[1], seen[2] or ''}
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return {0}
end
return {3, kind}
