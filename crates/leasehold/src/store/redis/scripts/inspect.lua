-- Who holds a lock.
--
-- KEYS  1 the lock   2 its facts   3 its holds
-- Reply {0}                             nobody
--       {2, left, value, facts, holds}  somebody, for so many milliseconds (-1: without end);
--                                       facts are '' or 'fence since ttl token', times in
--                                       milliseconds; with an owner, '=owner' for the token, and
--                                       its holds are the list of their tokens and metadata
--       {3, type}                       the key is no lock

local seen = redis.call('MGET', KEYS[1], KEYS[2])
if seen[1] then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local holds = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. now - 100, '+inf') -- as in owner.lua
  return {2, redis.call('PTTL', KEYS[1]), seen[1], seen[2] or '', holds}
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return {0}
end
return {3, kind}
