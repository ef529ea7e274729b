-- Takes free locks, of each claim all or none; who would wait, and cannot have them, stands in
-- line.
--
-- KEYS  1 the counter; then of all claims the locks, their lines, their places
-- ARGV  for each claim: how many names; our tag; TTL in milliseconds; and of one who would wait:
--       the channel on which it hears of a grant ('' if it only looks), milliseconds for which it
--       is granted by a hand-over, milliseconds after which it is taken for gone, and the token
--       of one who gave up and whose place it takes, or ''; of one who would not: '-', 0, 0, ''
-- Reply for each claim:
--       {1, fence}         they are ours
--       {2, left, value, which, facts}
--                          somebody holds one of them (the first is 1), for so many milliseconds
--                          (-1: without end); its facts, or ''
--       {3, type, which}   one of the keys is no lock
--       {4, left, value, which, facts, now, before, heard}
--                          the same as 2, and we stand in its line: the server's time in
--                          microseconds, how many stand before us, and 1 or 0 whether anybody
--                          listens to our channel
--       {5, which}         its line is full
--
-- Everything of a claim that can fail comes before it takes a lock: a script is not rolled
-- back. MGET, unlike GET, does not fail on a key of another type.

local claims, locks = #ARGV / 7, (#KEYS - 1) / 3
local seen = redis.call('MGET', unpack(KEYS, 1, 1 + locks))
counted = seen[1] or 0
if (tonumber(counted) or 0) + claims >= 9007199254740992 then
  return redis.error_reply('ERR leasehold: the fence counter ' .. KEYS[1] .. ' is beyond 2^53')
end
local has_lines = redis.call('EXISTS', unpack(KEYS, 2 + locks, 1 + 2 * locks)) > 0

local function name(i)
  return {KEYS[1 + i], KEYS[1 + locks + i], KEYS[1 + 2 * locks + i]}
end

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

local reply = {}
local before = 0
local granted = false
for claim = 1, claims do
  local arg = 7 * (claim - 1)
  local count, tag, ttl, channel = ARGV[arg + 1] + 0, ARGV[arg + 2], ARGV[arg + 3], ARGV[arg + 4]
  local token, replaced = string.sub(tag, 1, 22), ARGV[arg + 7]

  local function place(arrival)
    local names = {}
    for i = 1, count do
      names[i] = name(before + i)
    end
    return {
      seen = millis(), stale = ARGV[arg + 6] + 0, accept = ARGV[arg + 5], channel = channel,
      tag = tag, owner = '', names = names, arrival = arrival
    }
  end

  if replaced ~= '' then
    -- What the one who gave up has is ours: its place, or the lock, if that was on its way.
    for i = before + 1, before + count do
      local arrival = redis.call('ZSCORE', KEYS[1 + locks + i], replaced)
      leave(name(i), replaced)
      if arrival then
        stand(name(i), token, place(arrival))
        has_lines = true
      end
      local value = redis.call('MGET', KEYS[1 + i])[1]
      if value and string.sub(value, 1, 22) == replaced then
        redis.call('SET', KEYS[1 + i], tag, 'PX', ttl)
        value = tag
      end
      seen[1 + i] = value
    end
  end
  if has_lines then
    -- Those who stand in line go first.
    for i = before + 1, before + count do
      serve_if_free(name(i), token)
    end
    local fresh = redis.call('MGET', unpack(KEYS, 2 + before, 1 + before + count))
    for i = 1, count do
      seen[1 + before + i] = fresh[i]
    end
  end

  local blocked
  for i = before + 1, before + count do
    if seen[1 + i] and seen[1 + i] ~= tag then
      blocked = i
      break
    end
  end
  if not blocked then
    micros() -- asked for before the first write
    for i = before + 1, before + count do
      if not seen[1 + i] and not redis.call('SET', KEYS[1 + i], tag, 'NX', 'PX', ttl) then
        -- Of another type, or taken by a claim before this one in the same call.
        blocked = i
        for taken = before + 1, i - 1 do
          if not seen[1 + taken] then
            redis.call('DEL', KEYS[1 + taken])
          end
        end
        break
      end
    end
  end

  if not blocked then
    for i = before + 1, before + count do
      if seen[1 + i] then
        -- Our own claim asked again, or granted by a hand-over.
        redis.call('PEXPIRE', KEYS[1 + i], ttl)
      end
      if has_lines then
        leave(name(i), token)
      end
    end
    -- A new fence also for a claim asked again: another holder may have come and gone between
    -- the two.
    granted = true
    reply[claim] = {1, draw()}
  else
    local lock = KEYS[1 + blocked]
    local holder = redis.call('MGET', lock)[1]
    if not holder then
      reply[claim] = {3, redis.call('TYPE', lock).ok, blocked - before}
    else
      local left = redis.call('PTTL', lock)
      reply[claim] = {2, left, holder, blocked - before, facts_of(lock)}
      if channel ~= '-' then
        reply[claim] = queue(reply[claim], place(), token)
        has_lines = true
      end
    end
  end
  before = before + count
end

if not granted then
  -- A write that changes nothing (the counter has no expiry): a replica refuses it, and so
  -- does not say that a lock is held from what it once heard.
  redis.call('PERSIST', KEYS[1])
end
keep_fence()
return reply
