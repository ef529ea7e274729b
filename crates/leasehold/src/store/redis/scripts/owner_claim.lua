-- Enters locks for an owner, all or none: those that are free, and those that it has already.
--
-- KEYS  1 the counter that fences come from; then for each name: the lock, its facts, its holds
-- ARGV  1 the owner   2 our tag: token, then metadata   3 TTL in milliseconds
-- Reply for the one claim:
--       {1, fence}                entered; by the fence of those who are in already
--       {2, left, value, which, facts}
--                                 somebody else holds one of them (the first is 1), for so many
--                                 milliseconds (-1: without end); its facts, or ''
--       {3, type, which}          one of the keys is no lock
--
-- Asking again with the same token is entering once.

local owner, tag, ttl = ARGV[1], ARGV[2], ARGV[3]
local names = (#KEYS - 1) / 3

-- Look first: nothing is written before it is clear that all can be entered.
local entered, stays = {}, {}
local fence
local is_same = true
for i = 1, names do
  local lock = KEYS[3 * i - 1]
  local seen = redis.call('MGET', lock, KEYS[3 * i])
  if seen[1] and seen[1] ~= owner then
    redis.call('PERSIST', KEYS[1]) -- changes nothing, and a replica refuses it
    return {{2, redis.call('PTTL', lock), seen[1], i, seen[2] or ''}}
  elseif not seen[1] and redis.call('EXISTS', lock) == 1 then
    redis.call('PERSIST', KEYS[1])
    return {{3, redis.call('TYPE', lock).ok, i}}
  end
  entered[i] = seen[1]
  local known, since, of = string.match(seen[2] or '', '^(%d+) (%d+) %d+ (.*)$')
  if seen[1] and of == '=' .. owner and redis.call('ZCOUNT', KEYS[3 * i + 1], '(' .. over, '(+inf') > 0 then
    is_same = is_same and (fence or known) == known
    fence, stays[i] = known, since
  else
    is_same = false
  end
end

if not is_same then
  -- Not all of them are entered under one fence: a new one for all, as for any fresh grant.
  local last = tonumber(redis.call('MGET', KEYS[1])[1]) or 0
  if last + 1 >= 9007199254740992 then
    return redis.error_reply('ERR leasehold: the fence counter ' .. KEYS[1] .. ' is beyond 2^53')
  end
  fence = string.format('%.0f', math.max(time[1] * 1000000 + time[2], last + 1))
  redis.call('SET', KEYS[1], fence)
end

-- How to undo what was done at each name.
local undo = {}

local function enter(i)
  local lock, facts, holds = KEYS[3 * i - 1], KEYS[3 * i], KEYS[3 * i + 1]
  undo[i] = {'DEL', lock, facts, holds}
  if entered[i] then
    prune(holds)
    undo[i] = redis.call('ZSCORE', holds, tag) and {'PERSIST', KEYS[1]} or {'ZREM', holds, tag}
    if redis.call('ZCARD', holds) == 0 then
      undo[i] = {'DEL', facts, holds}
      redis.call('ZADD', holds, '+inf', '')
    end
  else
    redis.call('SET', lock, owner, 'PX', ttl)
    redis.call('DEL', holds)
  end
  redis.call('ZADD', holds, now + ttl, tag)
  local since = stays[i] or string.format('%.0f', now)
  redis.call('SET', facts, table.concat({fence, since, ttl, '=' .. owner}, ' '), 'PX', ttl)
  settle(lock, facts, holds)
end

for i = 1, names do
  local done, failed = pcall(enter, i)
  if not done then
    -- A right that is missing, or a key that is not what it should be. A script is not rolled
    -- back by the server, so this does it.
    for taken = 1, i do
      redis.pcall(unpack(undo[taken]))
    end
    return redis.error_reply(type(failed) == 'table' and failed.err or failed)
  end
end
return {{1, tonumber(fence)}}
