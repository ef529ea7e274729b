-- Takes a hold of an owner's away, or its place in line; the last hold to go frees the lock,
-- for the next in line.
--
-- KEYS  1 the counter; then for each name: lock, line, places, facts, holds
-- ARGV  1 the owner   2 our tag
-- Reply for the one lease: 1 released, or {0, which} this hold is not there at one of the names
--       (the first is 1), or {2, which} somebody else has the lock; the others are released all
--       the same

local reply = 1
local names = {}
for i = 1, (#KEYS - 1) / 5 do
  local name = {unpack(KEYS, 5 * i - 3, 5 * i + 1)}
  names[i] = name
  local lock, facts, holds = name[1], name[4], name[5]
  leave(name, string.sub(ARGV[2], 1, 22))
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
for _, name in ipairs(names) do
  serve_if_free(name)
end
keep_fence()
return {reply}
