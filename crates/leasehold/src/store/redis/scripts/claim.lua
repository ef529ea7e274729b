-- Takes a free lock, with a fence above every earlier one.
--
-- KEYS  1 the lock   2 the counter that fences come from
-- ARGV  1 our value: token, then metadata   2 TTL in milliseconds
-- Reply {1, fence}         it is ours
--       {2, left, value}   somebody holds it, for so many milliseconds (-1: without end)
--       {3, type}          the key is no lock
--
-- Everything that can fail comes before the first write: a script is not rolled back.
-- MGET, unlike GET, does not fail on a key of another type.

local seen = redis.call('MGET', KEYS[1], KEYS[2])
local ours = seen[1] == ARGV[1]
if seen[1] and not ours then
  -- A write that changes nothing (the counter has no expiry): a replica refuses it, and so
  -- does not say that a lock is held from what it once heard.
  redis.call('PERSIST', KEYS[2])
  return {2, redis.call('PTTL', KEYS[1]), seen[1]}
end

-- Time is the fence's floor, so that it grows even after the counter was lost.
local time = redis.call('TIME')
local fence = time[1] * 1000000 + time[2]
local last = tonumber(seen[2]) or 0
if fence <= last then
  fence = last + 1
end
if fence >= 9007199254740992 then
  return redis.error_reply('ERR leasehold: the fence counter ' .. KEYS[2] .. ' is beyond 2^53')
end

if ours then
  -- Our own claim asked again, since its reply was lost. A new fence: another holder may
  -- have come and gone between the two.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
elseif not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return {3, redis.call('TYPE', KEYS[1]).ok}
end
redis.call('SET', KEYS[2], fence)
return {1, fence}
