-- Who holds a lock, and who waits for it.
--
-- KEYS  1 the counter   2 the lock   3 its line   4 its places   5 its facts   6 its holds
-- Reply {0, line}                             nobody
--       {2, line, left, value, facts, holds}  somebody, for so many milliseconds (-1: without
--                                             end); facts are '' or 'fence since ttl token', times
--                                             in milliseconds; with an owner, '=owner' for the
--                                             token, and its holds are the list of their tags
--       {3, line, type}                       the key is no lock
-- The line is the list of those who wait, the first first: the tag and the owner ('') of each.

local line = {}
for _, token in ipairs(redis.call('ZRANGE', KEYS[3], 0, 9999)) do
  local packed = redis.call('HGET', KEYS[4], token)
  local place = packed and cmsgpack.unpack(packed)
  if place and millis() - place.seen <= place.stale then
    line[#line + 1] = {place.tag, place.owner}
  end
end
local seen = redis.call('MGET', KEYS[2], KEYS[5])
if seen[1] then
  local holds = redis.call('ZRANGEBYSCORE', KEYS[6], '(' .. millis() - 100, '+inf')
  return {2, line, redis.call('PTTL', KEYS[2]), seen[1], seen[2] or '', holds}
end
local kind = redis.call('TYPE', KEYS[2]).ok
if kind == 'none' then
  return {0, line}
end
return {3, line, kind}
