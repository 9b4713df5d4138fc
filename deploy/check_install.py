"""Use an installed slatewise as the first page of the documentation does; `make dist` runs it.

    python check_install.py PAGE

In the current directory, which should be empty, with the slatewise of this interpreter's
environment and nothing else: the commands and the Python of the page, then a service whose page and
slates are asked for. It ends with an error at the first thing that fails.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

FENCE = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SLATEWISE = str(Path(sys.executable).with_name("slatewise"))


def main() -> None:
    """Do all that the page shows, then serve what it has trained."""
    for command in commands(Path(sys.argv[1]).read_text(encoding="utf-8")):
        print("$", *(" ".join(command).splitlines()[:1]), flush=True)
        subprocess.run(command, check=True)
    serve()


def commands(page: str) -> Iterator[list[str]]:
    """Yield the `slatewise` commands of a page, and its Python as programs of their own."""
    for kind, text in FENCE.findall(page):
        if kind == "python":
            yield [sys.executable, "-c", text]
            continue
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["slatewise"]:
                yield [SLATEWISE, *words[1:]]


def serve() -> None:
    """Start a service of the trained run, ask for its page and for a slate, and stop it."""
    command = [SLATEWISE, "serve", "shop", "--run", "run", "--open", "--port", "0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as service:
        try:
            address = next(found[0] for found in map(_address, service.stdout or ()) if found)
            for path, part in (("/", "<title>"), ("/page/app.js", "import"), ("/docs", "<")):
                with urlopen(address + path, timeout=60) as answer:
                    assert part in answer.read().decode(), path
            asked = Request(f"{address}/v1/recommend", json.dumps({"k": 5}).encode())
            asked.add_header("Content-Type", "application/json")
            with urlopen(asked, timeout=60) as answer:
                print(f"A slate from {address}:", [one["id"] for one in json.load(answer)["items"]])
        finally:
            service.terminate()
    assert service.returncode == 0, f"the service ended with {service.returncode}"


def _address(line: str) -> list[str]:
    return re.findall(r"http://\S+", line)


if __name__ == "__main__":
    main()
