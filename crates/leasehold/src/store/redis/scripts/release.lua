-- Gives leases back, if they are ours.
--
-- KEYS  for each lease: its locks; then, if any were noted down, the facts of each
-- ARGV  for each lease: how many locks, 1 or 0 whether its facts follow, our token
-- Reply for each lease: 1 released, or {0, which} nobody has one of its locks (the first is 1),
--       or {2, which} somebody else has; the others are released all the same

local values = redis.call('MGET', unpack(KEYS))
local reply, ours = {}, {}
local before = 0
for lease = 1, #ARGV / 3 do
  local count, facts, token = ARGV[3 * lease - 2] + 0, ARGV[3 * lease - 1], ARGV[3 * lease]
  reply[lease] = 1
  for key = before + 1, before + count do
    local value = values[key]
    if value == token or value and string.sub(value, 1, #token) == token then
      ours[#ours + 1] = KEYS[key]
      if facts == '1' then
        ours[#ours + 1] = KEYS[key + count]
      end
    elseif reply[lease] == 1 then
      reply[lease] = {2 * redis.call('EXISTS', KEYS[key]), key - before}
    end
  end
  before = before + count * (1 + facts)
end
if #ours > 0 then
  redis.call('DEL', unpack(ours))
end
return reply
