-- Gives leases back, if they are ours, and places in line; hands what is free to the next.
--
-- KEYS  1 the counter; then of all leases the locks, their lines, their places; then the facts
--       of those that were noted down
-- ARGV  1 how many locks; for each lease: how many names, 1 or 0 whether its facts were noted
--       down, our token
-- Reply for each lease: 1 released, or {0, which} nobody has one of its locks (the first is 1),
--       or {2, which} somebody else has; the others are released all the same

local locks = ARGV[1] + 0
local values = redis.call('MGET', unpack(KEYS, 2, 1 + locks))
local has_lines = redis.call('EXISTS', unpack(KEYS, 2 + locks, 1 + 2 * locks)) > 0

local function name(i)
  return {KEYS[1 + i], KEYS[1 + locks + i], KEYS[1 + 2 * locks + i]}
end

local reply, ours = {}, {}
local before, noted = 0, 1 + 3 * locks
for lease = 1, (#ARGV - 1) / 3 do
  local count, facts, token = ARGV[3 * lease - 1] + 0, ARGV[3 * lease], ARGV[3 * lease + 1]
  reply[lease] = 1
  for i = before + 1, before + count do
    local value = values[i]
    if facts == '1' then
      noted = noted + 1
    end
    if value == token or value and string.sub(value, 1, #token) == token then
      ours[#ours + 1] = KEYS[1 + i]
      if facts == '1' then
        ours[#ours + 1] = KEYS[noted]
      end
    else
      if has_lines then
        leave(name(i), token)
      end
      if reply[lease] == 1 then
        reply[lease] = {2 * redis.call('EXISTS', KEYS[1 + i]), i - before}
      end
    end
  end
  before = before + count
end
if #ours > 0 then
  redis.call('DEL', unpack(ours))
end

if has_lines then
  for i = 1, locks do
    serve_if_free(name(i))
  end
  keep_fence()
end
return reply
