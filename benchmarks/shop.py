"""A running server with made-up items and users, and the load generator that drives it."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import torch

from harness import Row
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.gaussian import Gaussian
from slatewise.model.posterior import Posterior
from slatewise.service.serving.arms import assign
from slatewise.service.settings import ServiceConfig
from slatewise.training import runs

DIMS, GROUPS = 25, 300
USERS, VISITS = 400, 20
CONFIG = """
history = 20
[models.main.model]
dimensions = 25
[arms.greedy]
strategy = "greedy"
[arms.in-slate-thompson]
strategy = "in-slate-thompson"
[limits]
requests_per_second = 1e6
"""


class Shop:
    """A running server, and what is asked of it."""

    def __init__(
        self, directory: Path, config: Path, client: httpx.Client, pid: int, *, wrk: bool = True
    ) -> None:
        self.directory, self.client = directory, client
        self.config = ServiceConfig.read(config)
        self._parent = psutil.Process(pid)
        self._wrk = _program() if wrk else None

    @property
    def worker(self) -> psutil.Process:
        """The one that serves; its parent only looks after it."""
        children = self._parent.children(recursive=True)
        return max(children, key=lambda one: sum(one.cpu_times()[:2]))

    def cpu(self) -> tuple[float, float]:
        """CPU seconds of the worker so far, and those of its first thread, which speaks HTTP."""
        worker = self.worker
        first = next(thread for thread in worker.threads() if thread.id == worker.pid)
        return float(sum(worker.cpu_times()[:2])), first.user_time + first.system_time

    def ranking(self) -> float:
        """CPU seconds that the first thread spent in `Service.recommend`, as it counted them."""
        return self.counted('slatewise_ranking_cpu_seconds_total{thread="http"}')

    def counted(self, pattern: str) -> float:
        """Return the sum of the metrics whose names and labels match."""
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if re.match(pattern, line))

    def memory(self) -> float:
        """Megabytes of the worker that are neither files nor shared."""
        status = Path(f"/proc/{self.worker.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) / 1000

    def users(self, arm: str) -> list[str]:
        """Users with a history who are in an arm."""
        config = self.config
        names = [f"user-{number}" for number in range(USERS)]
        return [name for name in names if assign(config.shares, config.salt, name) == arm]

    def load(self, route: str, lines: Sequence[str], connections: int, seconds: float) -> Row:
        """Send lines in turn for a while; return what came of it."""
        return ended(self.begin(route, lines, connections, seconds))

    def begin(
        self, route: str, lines: Sequence[str], connections: int, seconds: float
    ) -> "subprocess.Popen[str]":
        """Begin to send lines in turn; `ended` waits for what comes of it."""
        bodies = self.directory.with_name(f"{route}.jsonl")
        bodies.write_text("\n".join(lines) + "\n")
        here, url = Path(__file__), str(self.client.base_url)
        if self._wrk is None:
            command = [sys.executable, str(here.with_name("load.py")), str(bodies)]
            command += [f"{url}/v1/{route}", str(connections), str(seconds)]
        else:
            command = [self._wrk, "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s"]
            command += ["--timeout", "20s", "-s", str(here.with_name("serve.lua"))]
            command += [url, "--", str(bodies), f"/v1/{route}"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@contextmanager
def serving(home: Path, items: int, *options: str, wrk: bool = True) -> Iterator[Shop]:
    """Serve so many made-up items, to users with a history; none without items."""
    run, config = home / "run", home / "service.toml"
    config.write_text(CONFIG)
    if items:
        made_up_run(items, run)
        options = (*options, "--run", str(run))
    with _server(home, config, *options) as (client, pid):
        shop = Shop(home / "service", config, client, pid, wrk=wrk)
        if items:
            shutil.rmtree(run)
            _histories(client, items)
        yield shop


def made_up_run(items: int, path: Path) -> None:
    """Write a run whose items lie anywhere: what it knows is worth nothing, its size is real."""
    generator = torch.Generator().manual_seed(0)
    groups = torch.randint(GROUPS, (items,), generator=generator)
    sources = ["recommendation", "search"]
    posterior = Posterior(
        ModelConfig(dimensions=DIMS), groups, range(GROUPS), 25, generator, sources
    )
    means = torch.randn(items, DIMS, generator=generator)
    posterior.items = Gaussian.around(means, 0.2, posterior.config.sigma_max)
    ids: list[int | str] = [str(number) for number in range(items)]
    names = [f"group-{number}" for number in range(GROUPS)]
    runs.save(SlateModel(posterior, ids, names, sources, torch.ones(items)), path)


@contextmanager
def _server(home: Path, config: Path, *options: str) -> Iterator[tuple[httpx.Client, int]]:
    port, log = _free_port(), home / "log"
    command = [sys.executable, "-m", "slatewise", "serve", str(home / "service"), *options]
    command += ["--config", str(config), "--port", port, "--open"]
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        quiet = os.environ | {"OMP_NUM_THREADS": "1"}
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=quiet)
        stack.callback(server.wait, 300)
        stack.callback(server.terminate)
        address = f"http://127.0.0.1:{port}"
        client = stack.enter_context(httpx.Client(base_url=address, timeout=60))
        while not _answers(client):
            if server.poll() is not None:
                sys.exit(f"The server ended:\n{log.read_text()}")
            time.sleep(0.2)
        yield client, server.pid


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health/ready").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _histories(client: httpx.Client, items: int) -> None:
    rng = np.random.default_rng(1)
    for visit in range(VISITS):
        body = {"events": [event(rng, items, u, f"{visit}-{u}") for u in range(USERS)]}
        client.post("/v1/feedback", json=body).raise_for_status()


def event(rng: np.random.Generator, items: int, user: int, slate: str) -> dict[str, Any]:
    """Return the event of a slate that others showed, with a click."""
    shown = [str(item) for item in rng.choice(max(items, 100), 20, replace=False)]
    known = {"slate_id": slate, "user_id": f"user-{user}", "source": "search", "items": shown}
    return known | {"seen": 12, "clicked": shown[3]}


def ended(load: "subprocess.Popen[str]") -> Row:
    """Wait for a load to end; return requests, how many failed, seconds, p50 and p99."""
    said, _ = load.communicate()
    found: Row = json.loads(said.strip().splitlines()[-1])
    return found


def _program() -> str:
    """Find wrk, or install Debian's where that is allowed."""
    if shutil.which("wrk") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "-qq", "update"], ["apt-get", "install", "-y", "-qq", "wrk"]):
            subprocess.run(command, env=quiet, capture_output=True, check=False, timeout=600)
    return shutil.which("wrk") or sys.exit("wrk is not installed: apt-get install wrk")
