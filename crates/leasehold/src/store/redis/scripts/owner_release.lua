-- Takes a hold of an owner's away; the last one to go frees the lock.
--
-- KEYS  for each name: the lock, its facts, its holds
-- ARGV  1 the owner   2 our tag: token, then metadata
-- Reply for the one lease: 1 released, or {0, which} this hold is not there at one of the names
--       (the first is 1), or {2, which} somebody else has the lock; the others are released all
--       the same

local reply = 1
for i = 1, #KEYS / 3 do
  local lock, facts, holds = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local code = 0
  if redis.call('MGET', lock)[1] ~= ARGV[1] then
    code = 2 * redis.call('EXISTS', lock)
  else
    local hold = find(holds, ARGV[2])
    if hold then
      redis.call('ZREM', holds, hold)
      settle(lock, facts, holds)
      code = 1
    end
  end
  if code ~= 1 and reply == 1 then
    reply = {code, i}
  end
end
return {reply}
