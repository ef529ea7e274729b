-- What the scripts for leases with an owner share: its text is put before each of theirs.
--
-- The value of such a lock is exactly the owner. Its holds are a sorted set: the tag of each
-- acquisition (token, then metadata), scored by its own end in milliseconds. All keys of the
-- lock end with the last hold. A lock with the owner's value that has no holds was made by a
-- plain client: that counts as one hold, the empty tag, without an end of its own.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The clock that expires keys may lag a little behind the one that scripts read.
local over = now - 100

-- Forgets holds that have run out: a write that a full server allows, after which others pass
-- too. An error if the key is not a set, which nobody of us made it.
local function prune(holds)
  return redis.pcall('ZREMRANGEBYSCORE', holds, '-inf', over)
end

-- The hold as it is stored, if it has not run out.
local function find(holds, tag)
  if type(prune(holds)) ~= 'number' then
    return nil
  elseif redis.call('ZSCORE', holds, tag) then
    return tag
  elseif #tag == 22 then
    -- From somebody who knows the token only, and not the metadata behind it.
    for _, hold in ipairs(redis.call('ZRANGE', holds, 0, -1)) do
      if string.sub(hold, 1, 22) == tag then
        return hold
      end
    end
  end
end

-- Lets the lock end with the last hold that is left, or now if there is none.
local function settle(lock, facts, holds)
  local latest = redis.call('ZREVRANGEBYSCORE', holds, '(+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local plain = redis.call('ZSCORE', holds, '')
  if latest then
    local left = redis.call('PTTL', lock)
    -- A plain client's lock is never shortened.
    if not plain or left >= 0 and now + left < latest + 0 then
      redis.call('PEXPIREAT', lock, latest)
    end
    redis.call('PEXPIREAT', facts, latest)
    redis.call('PEXPIREAT', holds, latest)
  elseif plain then
    redis.call('DEL', facts, holds)
  else
    redis.call('DEL', lock, facts, holds)
  end
end

