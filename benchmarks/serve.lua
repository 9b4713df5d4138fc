-- Sends the lines of a file in turn, and tells what came of it as one line of JSON.
-- Arguments: the file, the route. SLATE in a line becomes an id that no other request has.
local lines, route, sent = {}, "", 0

function init(arguments)
  for line in io.lines(arguments[1]) do lines[#lines + 1] = line end
  route = arguments[2]
  wrk.headers["Content-Type"] = "application/json"
  started = tostring(os.time()) .. "-" .. tostring(math.random(1e9))
end

function request()
  sent = sent + 1
  local body = lines[sent % #lines + 1]:gsub("SLATE", started .. "-" .. sent)
  return wrk.format("POST", route, nil, body)
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %f, "failed": %d, "p50": %f, "p99": %f}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
