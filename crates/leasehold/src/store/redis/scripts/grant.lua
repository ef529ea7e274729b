-- What the scripts that grant or free locks share: its text is put before each of theirs.
--
-- The keys of a name, in this order:
--   lock     its value is our tag (token, then metadata); with an owner, exactly the owner
--   line     a sorted set: the token of each who waits, scored by its arrival in microseconds
--   places   a hash: token -> what is to be granted to it, and when it was last seen
--   facts    what an operator may ask for: 'fence since ttl token', or '=owner' for the token
--   holds    of an owner, a sorted set: the tag of each acquisition, scored by its own end in
--            milliseconds. All keys end with the last hold. A lock with the owner's value that
--            has no holds was made by a plain client: that counts as one hold, the empty tag,
--            without an end of its own.
-- KEYS[1] is the counter that fences come from.

local clock

-- The server's time in microseconds: one for the whole run.
local function micros()
  if not clock then
    local time = redis.call('TIME')
    clock = time[1] * 1000000 + time[2]
  end
  return clock
end

local function millis()
  return math.floor(micros() / 1000)
end

-- What the counter held before this run, if that is known already.
local counted
local drawn

-- A fence above every earlier one, or nil if there is none left below 2^53. Time is its floor,
-- so that it grows even after the counter was lost.
local function draw()
  local fence = drawn
  if not fence then
    counted = counted or redis.call('MGET', KEYS[1])[1]
    fence = math.max(tonumber(counted) or 0, micros() - 1)
  end
  if fence + 1 >= 9007199254740992 then
    return nil
  end
  drawn = fence + 1
  return drawn
end

-- Keeps the last fence that was drawn; the end of every script that may have drawn one.
local function keep_fence()
  if drawn then
    redis.call('SET', KEYS[1], string.format('%.0f', drawn))
  end
end

-- Forgets holds that have run out: a write that a full server allows, after which others pass
-- too. An error if the key is not a set, which nobody of us made it. The clock that expires keys
-- may lag a little behind the one that scripts read: hence the 100 ms.
local function prune(holds)
  return redis.pcall('ZREMRANGEBYSCORE', holds, '-inf', millis() - 100)
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

-- Lets a lock end with the last hold that is left, or now if there is none.
local function settle(lock, facts, holds)
  local latest = redis.call('ZREVRANGEBYSCORE', holds, '(+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local plain = redis.call('ZSCORE', holds, '')
  if latest then
    local left = redis.call('PTTL', lock)
    -- A plain client's lock is never shortened.
    if not plain or left >= 0 and millis() + left < latest + 0 then
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

-- Adds a hold of an owner's to a lock that is free, or that it has already.
local function enter(name, owner, tag, ttl, fence, since, is_entered)
  local lock, facts, holds = name[1], name[4], name[5]
  if is_entered then
    prune(holds)
    if redis.call('ZCARD', holds) == 0 then
      redis.call('ZADD', holds, '+inf', '')
    end
  else
    redis.call('SET', lock, owner, 'PX', ttl)
    redis.call('DEL', holds)
  end
  redis.call('ZADD', holds, millis() + ttl, tag)
  local note = table.concat({fence, since or string.format('%.0f', millis()), ttl, '=' .. owner}, ' ')
  redis.call('SET', facts, note, 'PX', ttl)
  settle(lock, facts, holds)
end

-- Whether somebody else has a lock; an owner's own locks do not stand in its way.
local function is_taken(lock, owner)
  local value = redis.call('MGET', lock)[1]
  return value and value ~= owner or not value and redis.call('EXISTS', lock) == 1
end

-- Which of several names somebody else has; nil if nobody has any.
local function taken_of(names, owner)
  for i = 1, #names do
    if is_taken(names[i][1], owner) then
      return i
    end
  end
end

-- Whether anybody hears what is told to a place. One without a channel looks by itself. Who may
-- not ask takes it for granted.
local function is_heard(channel)
  if channel == '' then
    return true
  end
  local count = redis.pcall('PUBSUB', 'NUMSUB', channel)
  return count.err ~= nil or count[2] ~= 0
end

local function leave(name, token)
  return redis.call('ZREM', name[2], token) + redis.call('HDEL', name[3], token)
end

-- Puts a place into the line of a name: at its end, or, if it has waited in another line, where
-- its arrival belongs. The line and the places end together when nobody looks any more.
local function stand(name, token, place)
  if place.arrival then
    redis.call('PEXPIRE', name[2], 60000) -- first what a full server allows: this is a look
  else
    local last = redis.call('ZREVRANGE', name[2], 0, 0, 'WITHSCORES')[2] or 0
    place.arrival = string.format('%.0f', math.max(micros(), last + 1))
  end
  redis.call('ZADD', name[2], place.arrival, token)
  redis.call('HSET', name[3], token, cmsgpack.pack(place))
  redis.call('PEXPIRE', name[2], 60000)
  redis.call('PEXPIRE', name[3], 60000)
end

-- What a token wants, if it stands in this line and has been seen of late. One that has not is
-- taken out.
local function place_of(name, token)
  local packed = redis.call('HGET', name[3], token)
  local place = packed and cmsgpack.unpack(packed)
  if place and millis() - place.seen <= place.stale then
    return place
  end
  leave(name, token)
end

-- How one stands: the server's time, how many are before it, whether anybody listens to its
-- channel. On the way it takes out whoever is before it and has not been seen of late.
local function standing(name, token, channel)
  local rank = redis.call('ZRANK', name[2], token)
  for _, before in ipairs(redis.call('ZRANGE', name[2], math.max(rank - 2, 0), rank)) do
    if before ~= token and not place_of(name, before) then
      rank = rank - 1
    end
  end
  return string.format('%.0f', micros()), rank, is_heard(channel) and 1 or 0
end

-- Hands a free lock to the first in its line who can take it, and answers the token; that of
-- `asking`, who runs this script, is not told by a message. Nobody listening is passed over;
-- nobody seen for three beats is taken out; who waits for several names and cannot have all of
-- them moves on to the line of one that is taken.
local function serve(name, asking)
  redis.call('ZREM', name[2], '') -- a write that a full server allows
  local passed_over = 0
  while true do
    local token = redis.call('ZRANGE', name[2], passed_over, passed_over)[1]
    if not token then
      return nil
    end
    local place = place_of(name, token)
    if place and token ~= asking and not is_heard(place.channel) then
      passed_over = passed_over + 1
    elseif place then
      local taken = place.names[2] and taken_of(place.names, place.owner)
      leave(name, token)
      if taken then
        stand(place.names[taken], token, place)
      else
        local fence = draw()
        if not fence then
          return nil
        end
        local shown = string.format('%.0f', fence)
        for _, granted in ipairs(place.names) do
          if place.owner ~= '' then
            local is_entered = redis.call('EXISTS', granted[1]) == 1
            enter(granted, place.owner, place.tag, place.accept, shown, nil, is_entered)
          else
            redis.call('SET', granted[1], place.tag, 'PX', place.accept)
          end
        end
        if token ~= asking and place.channel ~= '' then
          local when = string.format('%.0f', micros())
          -- If it cannot be told, it finds out by looking.
          redis.pcall('PUBLISH', place.channel, table.concat({token, shown, when, place.accept}, ' '))
        end
        return token
      end
    end
  end
end

-- Serves the line of a name that nobody has, if there is one.
local function serve_if_free(name, asking)
  if redis.call('EXISTS', name[1]) == 0 and redis.call('EXISTS', name[2]) == 1 then
    serve(name, asking)
  end
end

-- Stands in line for a claim that was blocked at one of its names, and answers as a claim does:
-- `held` is the answer to one who would not wait. One that stands in the line of another of its
-- names stays there if that is taken too, or moves with its arrival.
local function queue(held, place, token)
  local names, which = place.names, held[4]
  local stands_at = which
  for i, name in ipairs(names) do
    local arrival = redis.call('ZSCORE', name[2], token)
    if arrival then
      place.arrival = arrival
      if is_taken(name[1], place.owner) then
        stands_at = i
      else
        leave(name, token)
      end
    end
  end
  local name = names[stands_at]
  if not place.arrival and redis.call('ZCARD', name[2]) >= 100000 then
    return {5, which}
  end
  stand(name, token, place)
  return {4, held[2], held[3], which, held[5], standing(name, token, place.channel)}
end

