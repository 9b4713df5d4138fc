"""Drives a server from Python where wrk is missing: enough to see that a benchmark runs.

`python load.py FILE URL CONNECTIONS SECONDS` posts the lines of a file in turn and prints what
came of it, as `serve.lua` does; SLATE in a line becomes an id that no other request has.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4


def main() -> None:
    """Send until the time is over, on every connection once at least."""
    file, url, connections, seconds = sys.argv[1:]
    lines, numbers, run = Path(file).read_text().splitlines(), count(), uuid4().hex
    address, start = urlsplit(url), time.perf_counter()

    def send() -> list[tuple[float, bool]]:
        found: list[tuple[float, bool]] = []
        client = HTTPConnection(str(address.hostname), address.port, timeout=20)
        while not found or time.perf_counter() < start + float(seconds):
            number, began = next(numbers), time.perf_counter()
            body = lines[number % len(lines)].replace("SLATE", f"{run}-{number}")
            client.request("POST", address.path, body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            answer.read()
            found.append((1000 * (time.perf_counter() - began), answer.status >= 400))
        client.close()
        return found

    with ThreadPoolExecutor(int(connections)) as pool:
        parts = [pool.submit(send) for _ in range(int(connections))]
        sent = sorted(one for part in parts for one in part.result())
    result = {"requests": len(sent), "seconds": time.perf_counter() - start}
    result |= {"failed": sum(failed for _, failed in sent)}
    result |= {f"p{p}": sent[p * (len(sent) - 1) // 100][0] for p in (50, 99)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
