-- Enters locks for an owner, all or none: those that are free, and those that it has already.
-- Who would wait, and cannot have them, stands in line; but never behind itself.
--
-- KEYS  1 the counter; then for each name: lock, line, places, facts, holds
-- ARGV  1 the owner   2 our tag   3 TTL in milliseconds   4 to 6 of one who would wait, as for
--       claim.lua
-- Reply for the one claim, as of claim.lua; the fence is that of those who are in already
--
-- Asking again with the same token is entering once.

local owner, tag, ttl, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local token = string.sub(tag, 1, 22)
local names = {}
for i = 1, (#KEYS - 1) / 5 do
  names[i] = {unpack(KEYS, 5 * i - 3, 5 * i + 1)}
end

-- Those who stand in line go first.
for _, name in ipairs(names) do
  serve_if_free(name, token)
end

-- Look first: nothing is taken before it is clear that all can be entered.
local entered, stays = {}, {}
local fence
local is_same = true
for i, name in ipairs(names) do
  local lock = name[1]
  local seen = redis.call('MGET', lock, name[4])
  if seen[1] and seen[1] ~= owner then
    redis.call('PERSIST', KEYS[1]) -- changes nothing, and a replica refuses it
    local left = redis.call('PTTL', lock)
    local reply = {2, left, seen[1], i, seen[2] or ''}
    if channel ~= '-' then
      reply = queue(reply, {
        seen = millis(), stale = ARGV[6] + 0, accept = ARGV[5], channel = channel,
        tag = tag, owner = owner, names = names
      }, token)
    end
    keep_fence()
    return {reply}
  elseif not seen[1] and redis.call('EXISTS', lock) == 1 then
    redis.call('PERSIST', KEYS[1])
    keep_fence()
    return {{3, redis.call('TYPE', lock).ok, i}}
  end
  entered[i] = seen[1]
  local known, since, of = string.match(seen[2] or '', '^(%d+) (%d+) %d+ (.*)$')
  if seen[1] and of == '=' .. owner and redis.call('ZCOUNT', name[5], '(' .. millis() - 100, '(+inf') > 0 then
    is_same = is_same and (fence or known) == known
    fence, stays[i] = known, since
  else
    is_same = false
  end
end

if not is_same then
  -- Not all of them are entered under one fence: a new one for all, as for any fresh grant.
  fence = draw()
  if not fence then
    return redis.error_reply('ERR leasehold: the fence counter ' .. KEYS[1] .. ' is beyond 2^53')
  end
  fence = string.format('%.0f', fence)
end
keep_fence()

-- How to undo what was done at each name.
local undo = {}
for i, name in ipairs(names) do
  local lock, facts, holds = name[1], name[4], name[5]
  local function attempt()
    undo[i] = {'DEL', lock, facts, holds}
    if entered[i] then
      prune(holds)
      undo[i] = redis.call('ZSCORE', holds, tag) and {'PERSIST', KEYS[1]} or {'ZREM', holds, tag}
      if redis.call('ZCARD', holds) == 0 then
        undo[i] = {'DEL', facts, holds}
      end
    end
    enter(name, owner, tag, ttl, fence, stays[i], entered[i])
  end
  local done, failed = pcall(attempt)
  if not done then
    -- A right that is missing, or a key that is not what it should be. A script is not rolled
    -- back by the server, so this does it.
    for taken = 1, i do
      redis.pcall(unpack(undo[taken]))
    end
    return redis.error_reply(type(failed) == 'table' and failed.err or failed)
  end
  leave(name, token)
end
return {{1, tonumber(fence)}}
