"""What random kills cost: events lost, counted twice or refused, and how long it takes to recover.

A service with two workers on PostgreSQL is loaded by users who ask, look and tell, and who tell
again until they are answered. Meanwhile something is killed with SIGKILL again and again: a worker,
the supervisor (then the service is started again, as systemd would), all its processes at once,
PostgreSQL (stopped as by a crash, and started), or a night's training at a random moment. A ledger
has every event that was sent and what was answered; in the end it is held against the store. What
was acknowledged must be there once, and nothing that was never sent.

`refused` are requests that got a 503, and connections that broke. A recovery lasts from the kill
until events are acknowledged again and, where a worker died, another process has its place;
starting everything again is part of it. The floor is what a start takes by itself, said below.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil

from harness import Row, Target, parse, parser, report

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from tests.service.live.harness import (  # noqa: E402
    SLATEWISE,
    Ledger,
    Load,
    Server,
    audit,
    eventually,
)
from tests.service.postgres import Postgres, programs  # noqa: E402

CONFIG = ROOT / "tests" / "service" / "live" / "service.toml"
WEIGHTS = {"worker": 50, "supervisor": 15, "all processes": 10, "postgresql": 15, "night": 10}
PATIENCE, WORKERS = 600.0, 2
MINIATURE = {"kills": 1, "WEIGHTS": {"postgresql": 1}, "WORKERS": 1}


class Faults:
    """A service under load, and what is done to it."""

    def __init__(self, home: Path, stack: ExitStack, seed: int) -> None:
        found = programs()
        if found is None:
            sys.exit("PostgreSQL is not installed: apt-get install postgresql")
        self.postgres = Postgres(found)
        stack.callback(self.postgres.remove)
        self.directory, self.url = home / "service", self.postgres.url()
        options = ("--config", str(CONFIG), "--store", self.url)
        self.server = Server(self.directory, *options, workers=WORKERS)
        stack.callback(self._end)
        begun = time.monotonic()
        self.server.start(PATIENCE).put_items()
        self.start_seconds = time.monotonic() - begun
        self.ledger, self.rng = Ledger(), random.Random(seed)
        self.load = Load(self.server.port, self.ledger)

    def kill(self, what: str) -> Row:
        """Kill something at a random moment; return what that cost."""
        time.sleep(self.rng.uniform(0.0, 1.0))
        before, begun = self._refused(), time.monotonic()
        kills: dict[str, Callable[[], None]] = {
            "worker": self._worker,
            "supervisor": self._supervisor,
            "all processes": self._everything,
            "postgresql": self._postgresql,
            "night": self._night,
        }
        kills[what]()
        self.load.goes_on(3, PATIENCE)
        took = time.monotonic() - begun
        return {"kill": what, "refused": self._refused() - before, "seconds": took}

    def _worker(self) -> None:
        victim = self.rng.choice(self.server.workers())
        victim.send_signal(signal.SIGKILL)
        self.load.goes_on(1, PATIENCE)
        eventually(lambda: len(self.server.workers()) == WORKERS, "all workers again", PATIENCE)

    def _supervisor(self) -> None:
        process = self.server.process
        assert process is not None
        left = psutil.Process(process.pid).children(recursive=True)  # some may still be starting
        process.kill()
        process.wait()
        self.server.client.close()
        psutil.wait_procs(left, timeout=PATIENCE)
        self.server.start(PATIENCE)

    def _everything(self) -> None:
        self.server.kill()
        self.server.start(PATIENCE)

    def _postgresql(self) -> None:
        self.postgres.stop()
        time.sleep(self.rng.uniform(0.0, 2.0))
        self.postgres.start()

    def _night(self) -> None:
        """Kill a training, and see that it changed nothing and that another one may begin."""
        before = self._serving()
        night, lock = self.train(), self.directory / "retraining.lock"
        mine = [str(night.pid)]
        eventually(
            lambda: (
                night.poll() is not None
                or (lock.exists() and lock.read_text().split()[-1:] == mine)
            ),
            "the night began",
            PATIENCE,
        )
        time.sleep(self.rng.uniform(0.0, 6.0))
        night.kill()
        said, _ = night.communicate()
        if night.returncode not in (0, -signal.SIGKILL):
            sys.exit(f"A night failed:\n{said}")
        if night.returncode and self._serving() != before:
            # Killed after the very last step; the same version must serve everywhere.
            eventually(lambda: len(self._serving()) == 1, "one version serves", PATIENCE)

    def train(self) -> "subprocess.Popen[str]":
        """Begin a night's training."""
        return subprocess.Popen(
            [*SLATEWISE, "retrain", str(self.directory), "--config", str(self._config())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def train_to_the_end(self) -> None:
        """See that a night comes to its end after all."""
        night = self.train()
        said, _ = night.communicate()
        if night.returncode:
            sys.exit(f"No night came to an end after all kills:\n{said}")

    def _config(self) -> Path:
        """Write the settings down with the store, which retraining asks them for."""
        file = self.directory.with_name("night.toml")
        file.write_text(CONFIG.read_text() + f'\n[store]\nurl = "{self.url}"\n')
        return file

    def _serving(self) -> set[str]:
        answer = self.server.client.get("/metrics").text
        lines = [line for line in answer.splitlines() if line.startswith("slatewise_model_info")]
        lines = [line for line in lines if line.split()[-1] != "0.0"]  # what served before
        return {line.split('version="')[1].split('"')[0] for line in lines}

    def _refused(self) -> int:
        statuses = self.ledger.statuses
        return sum(n for name, n in statuses.items() if name.endswith((" 503", " lost")))

    def _end(self) -> None:
        process = self.server.process
        if process is not None and process.poll() is None:
            self.server.stop()


def main() -> None:
    """Kill, count, and hold the ledger against the store."""
    arguments = parser(__doc__)
    arguments.add_argument("--kills", type=int, default=300)
    arguments.add_argument("--minutes", type=float, default=600.0, help="end earlier after these")
    arguments.add_argument("--seed", type=int, default=1)
    options = parse(arguments, globals())
    kills: list[Row] = []
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        faults = Faults(Path(home), stack, options.seed)
        with faults.load:
            faults.load.goes_on(20, PATIENCE)
            _kill(faults, kills, options.kills, time.monotonic() + 60 * options.minutes)
            if not options.small:
                faults.train_to_the_end()
        found = audit(faults.ledger, faults.url)
    rows = [_row(what, kills) for what in WEIGHTS if what in {one["kill"] for one in kills}]
    rows.append(_row("all", kills))
    print(
        f"{found['acknowledged']:,} events acknowledged, {found['lost']} lost, {found['doubled']} "
        f"counted twice, {found['unsent']} never sent; a start takes {faults.start_seconds:.0f} s."
    )
    columns = {"kill": "{}", "kills": "{}", "refused": "{:,}"}
    report(
        options,
        "Random kills under load, seconds to recover",
        columns | dict.fromkeys(("p50", "p99", "longest"), "{:.1f}"),
        rows,
        [
            Target("kills", len(kills), options.kills, at_least=True),
            Target("acknowledged events that are lost", found["lost"], 0),
            Target("events counted twice", found["doubled"], 0),
            Target("events in the store that were never sent", found["unsent"], 0),
            Target("answers that nobody should get", len(faults.ledger.odd), 0),
        ],
        **found,
        start_seconds=faults.start_seconds,
        odd=faults.ledger.odd[:20],
    )


def _kill(faults: Faults, kills: list[Row], most: int, end: float) -> None:
    while len(kills) < most and time.monotonic() < end:
        (what,) = faults.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        kills.append(faults.kill(what))
        last = f"{what}, {kills[-1]['seconds']:.1f} s, {kills[-1]['refused']} refused"
        print(f"{len(kills)}: {last}", file=sys.stderr, flush=True)


def _row(what: str, kills: list[Row]) -> Row:
    these = [one for one in kills if what in ("all", one["kill"])]
    seconds = np.array([one["seconds"] for one in these])
    return {
        "kill": what,
        "kills": len(these),
        "refused": sum(one["refused"] for one in these),
        "p50": float(np.quantile(seconds, 0.5)),
        "p99": float(np.quantile(seconds, 0.99)),
        "longest": float(seconds.max()),
    }


if __name__ == "__main__":
    main()
