-- Takes free locks, of each claim all or none, with a fence above every earlier one.
--
-- KEYS  1 the counter that fences come from; then the locks of each claim
-- ARGV  for each claim: how many locks, our value (token, then metadata), TTL in milliseconds
-- Reply for each claim:
--       {1, fence}                they are ours
--       {2, left, value, which, facts}
--                                 somebody holds one of them (the first is 1), for so many
--                                 milliseconds (-1: without end); its facts, or ''
--       {3, type, which}          one of the keys is no lock
--
-- Everything that can fail comes before the first write: a script is not rolled back.
-- MGET, unlike GET, does not fail on a key of another type.

-- The name of the key is that of `Key::side_key` in name.rs.
-- Facts of a holder are looked at only where there is one, and so are no declared keys: whoever
-- may not read them is not kept from claiming.
local function facts_of(lock)
  local open = string.find(lock, '{', 1, true)
  local close = open and string.find(lock, '}', open + 1, true)
  local has_tag = close and close > open + 1
  local key = has_tag and lock .. ':leasehold:1t:facts' or '{' .. lock .. '}:leasehold:1:facts'
  return redis.pcall('MGET', key)[1] or ''
end

local claims = #ARGV / 3
local seen = redis.call('MGET', unpack(KEYS))
local last = tonumber(seen[1]) or 0
if last + claims >= 9007199254740992 then
  return redis.error_reply('ERR leasehold: the fence counter ' .. KEYS[1] .. ' is beyond 2^53')
end

local fence
local granted = false
local reply = {}
local before = 1
for claim = 1, claims do
  local count, value, ttl = ARGV[3 * claim - 2] + 0, ARGV[3 * claim - 1], ARGV[3 * claim]
  local blocked
  for key = before + 1, before + count do
    if seen[key] and seen[key] ~= value then
      blocked = key
      break
    end
  end
  if not blocked then
    if not fence then
      -- Time is the fence's floor, so that it grows even after the counter was lost.
      local time = redis.call('TIME')
      fence = math.max(time[1] * 1000000 + time[2] - 1, last)
    end
    for key = before + 1, before + count do
      if not seen[key] and not redis.call('SET', KEYS[key], value, 'NX', 'PX', ttl) then
        -- Of another type, or taken by a claim before this one in the same call.
        blocked = key
        for taken = before + 1, key - 1 do
          if not seen[taken] then
            redis.call('DEL', KEYS[taken])
          end
        end
        break
      end
    end
  end
  if not blocked then
    for key = before + 1, before + count do
      if seen[key] then
        -- Our own claim asked again, since its reply was lost.
        redis.call('PEXPIRE', KEYS[key], ttl)
      end
    end
    granted = true
    -- A new fence also for a claim asked again: another holder may have come and gone between
    -- the two.
    fence = fence + 1
    reply[claim] = {1, fence}
  else
    local lock = KEYS[blocked]
    local holder = redis.call('MGET', lock)[1]
    if holder then
      local left = redis.call('PTTL', lock)
      reply[claim] = {2, left, holder, blocked - before, facts_of(lock)}
    else
      reply[claim] = {3, redis.call('TYPE', lock).ok, blocked - before}
    end
  end
  before = before + count
end

if granted then
  redis.call('SET', KEYS[1], fence)
else
  -- A write that changes nothing (the counter has no expiry): a replica refuses it, and so
  -- does not say that a lock is held from what it once heard.
  redis.call('PERSIST', KEYS[1])
end
return reply
