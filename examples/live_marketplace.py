"""A simulated marketplace meets the real service over HTTP: visits by day, training by night.

Starts `slatewise serve` with two workers and the arms of a TOML file, tells it the items and four
weeks of searches from before it was there, and then lets simulated users come for some days. They
search, which the service hears of as slates that others showed, and they are recommended slates by
the service. They answer both as the simulator's truth has it. Of every slate the exact probability
of a click is known, so the table shows how good slates were, beside how lucky.

The service stamps what it serves with its own clock, and there is no switch to tell it another
time. So a day lasts as long as its requests take, some seconds, and a night as long as
`slatewise retrain`; only the four weeks before have the times of a simulation.
"""

import argparse
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from slatewise.simulation import Interactions, Marketplace, load_config

Ints = npt.NDArray[np.int64]
HERE = Path(__file__).parent
SLATEWISE = [sys.executable, "-m", "slatewise"]
WEEKS = 28 * 86_400_000_000
"""Four weeks, in microseconds: what was searched for before the service began."""
BATCH = 200
"""Events or items told in one request."""


@dataclass(frozen=True)
class Served:
    """A slate that the service recommended, and what the user made of it."""

    day: int
    arm: str
    version: str
    user: int
    clicked: bool
    probability: float
    """of a click on it, exactly, before the user had scrolled"""


@dataclass
class Story:
    """What happened."""

    served: list[Served] = field(default_factory=list)
    nights: list[dict[str, Any]] = field(default_factory=list)
    """what each retraining reports of the model"""
    experiment: dict[str, Any] = field(default_factory=dict)
    """the answer of /v1/experiment at the end"""


@contextmanager
def server(directory: Path, config: Path, workers: int, port: int = 0) -> Iterator[httpx.Client]:
    """Run the service on a port of this machine, a free one for 0; yield a client of it."""
    if not port:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    options = ["--config", config, "--workers", workers, "--port", port, "--open"]
    command = [*SLATEWISE, "serve", directory, *options]
    log = directory.with_name("server.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        process = subprocess.Popen(
            [str(word) for word in command], stdout=output, stderr=subprocess.STDOUT
        )
        stack.callback(_end, process)
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        stack.enter_context(client)
        _wait_until_ready(client, process, log)
        yield client


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()


def _wait_until_ready(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if client.get("/health/live").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    sys.exit(
        f"The server did not start:\n{log.read_text(errors='replace')}\n"
        "With make, choose the port so: make serve-demo STAY=1 PORT=8001"
    )


class Decided:
    """A policy of the simulator whose slates [B, S] were decided elsewhere."""

    def __init__(self, slates: Ints) -> None:
        self._slates = slates

    def recommend(self, history: Ints, k: int, rng: np.random.Generator) -> Ints:
        """Return them; the service knows the histories better."""
        return self._slates


class Town:
    """The simulated users, and what they do with the service."""

    def __init__(self, client: httpx.Client, preset: str, users: int | None, seed: int) -> None:
        # Who searches when is decided here, so the simulator is told only of slates.
        world = load_config(preset, users=users, seed=seed, search_share=0.0)
        self.market = Marketplace(world)
        self.users = self.market.new_users(world.users, np.random.default_rng([seed, 11]))
        self._client, self._seed = client, seed

    def open_shop(self) -> int:
        """Tell the service the items; return how many."""
        groups = self.market.catalogue.group
        items = [
            {"id": str(item), "group": f"group-{group:03d}"} for item, group in enumerate(groups)
        ]
        for start in range(0, len(items), BATCH):
            answer = self._client.put("/v1/items", json={"items": items[start : start + BATCH]})
            answer.raise_for_status()
        return len(items)

    def past(self, slates: int) -> int:
        """Let everybody search so many times in the four weeks before; return how many in all."""
        rng, now = np.random.default_rng([self._seed, 12]), time.time_ns() // 1000
        everybody = np.arange(len(self.users))
        times = np.sort(rng.integers(now - WEEKS, now, size=(slates, len(everybody))), axis=0)
        events = []
        for row in times:
            met = self._meet(everybody, self._searched(everybody, rng), rng)
            events += _search_events(met, rng, row)
        self._tell(events)
        return len(events)

    @property
    def address(self) -> str:
        """Where the service answers."""
        return str(self._client.base_url)

    def day(
        self, number: int, slates: float, search_share: float, pause: float = 0.0
    ) -> list[Served]:
        """Let users come for so many slates each, on average; return what was recommended.

        With a pause, in seconds, before each recommendation.
        """
        rng, served = np.random.default_rng([self._seed, 13, number]), []
        visits = rng.poisson(slates, size=len(self.users))
        for turn in range(visits.max(initial=0)):
            who = rng.permutation(np.flatnonzero(visits > turn))
            searching = rng.random(len(who)) < search_share
            seekers, others = who[searching], who[~searching]
            if len(seekers):
                met = self._meet(seekers, self._searched(seekers, rng), rng)
                self._tell(_search_events(met, rng))
            if len(others):
                served += self._recommended(number, others, rng, pause)
        return served

    def _recommended(
        self, day: int, who: Ints, rng: np.random.Generator, pause: float
    ) -> list[Served]:
        seeds = rng.integers(1 << 31, size=len(who)).tolist()
        if pause:
            answers = []
            for user, seed in zip(who.tolist(), seeds, strict=True):
                time.sleep(pause)
                answers.append(self._ask(user, seed))
        else:
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(self._ask, who.tolist(), seeds))
        slates = np.array([[int(item["id"]) for item in answer["items"]] for answer in answers])
        met = self._meet(who, slates, rng)
        self._tell(
            {"slate_id": answer["slate_id"], "seen": seen, "clicked": clicked}
            for answer, seen, clicked in zip(answers, *_actions(met), strict=True)
        )
        facts = zip(answers, who.tolist(), met.clicks >= 0, met.click_probability, strict=True)
        return [
            Served(day, answer["arm"], answer["version"], user, bool(clicked), float(chance))
            for answer, user, clicked, chance in facts
        ]

    def _ask(self, user: int, seed: int) -> dict[str, Any]:
        request = {"user_id": str(user), "k": self.market.config.max_slate, "seed": seed}
        answer = self._client.post("/v1/recommend", json=request)
        answer.raise_for_status()
        return dict(answer.json())

    def _searched(self, who: Ints, rng: np.random.Generator) -> Ints:
        return self.market.search.slates(self.users, who, self.market.config.max_slate, rng)

    def _meet(self, who: Ints, slates: Ints, rng: np.random.Generator) -> Interactions:
        return self.market.interact(self.users, Decided(slates), rng, who)

    def _tell(self, events: Iterable[dict[str, Any]]) -> None:
        events = list(events)
        for start in range(0, len(events), BATCH):
            body = {"events": events[start : start + BATCH]}
            answer = self._client.post("/v1/feedback", json=body)
            answer.raise_for_status()
            refused = [row for row in answer.json()["events"] if row["status"] != "recorded"]
            if refused:
                sys.exit(f"The service did not record {len(refused)} events: {refused[0]}")


def _actions(met: Interactions) -> tuple[list[int], list[str | None]]:
    return met.scroll.tolist(), [None if item < 0 else str(item) for item in met.clicks]


def _search_events(
    met: Interactions, rng: np.random.Generator, times: Ints | None = None
) -> list[dict[str, Any]]:
    """Tell of searches as of slates that others showed; now, or at `times` [B]."""
    seen, clicked = _actions(met)
    events: list[dict[str, Any]] = [
        {
            "slate_id": f"search-{rng.integers(1 << 62):x}",
            "user_id": str(user),
            "source": "search",
            "items": [str(item) for item in slate],
            "seen": seen[row],
            "clicked": clicked[row],
        }
        for row, (user, slate) in enumerate(zip(met.who, met.slates, strict=True))
    ]
    if times is not None:
        for event, when in zip(events, times.tolist(), strict=True):
            event["time"] = when
    return events


def night(directory: Path, config: Path) -> dict[str, Any]:
    """Retrain as a scheduler would; return the report on the model."""
    command = [*SLATEWISE, "retrain", str(directory), "--config", str(config), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The retraining failed:\n{done.stdout}{done.stderr}")
    reports: list[dict[str, Any]] = json.loads(done.stdout)
    return reports[0]


def wait_for(client: httpx.Client, version: str) -> None:
    """Wait until all workers serve a version and no other."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        lines = client.get("/metrics").text.splitlines()
        served = [line for line in lines if line.startswith("slatewise_model_info")]
        now = [line for line in served if line.endswith(" 1.0")]
        if now and all(f'version="{version}"' in line for line in now):
            return
        time.sleep(0.1)
    sys.exit(f"After a minute version {version} does not serve in all workers.")


def play(options: argparse.Namespace, directory: Path, console: Console) -> Story:
    """Live through all days and nights; print each as it ends."""
    story = Story()
    with server(directory, options.config, options.workers, options.port) as client:
        console.print(f"The page of the service: {client.base_url}\n")
        town = Town(client, options.preset, options.users, options.seed)
        items, searches = town.open_shop(), town.past(options.past)
        console.print(f"The service knows {items:,} items and {searches:,} past searches.\n")
        for day in range(options.days):
            story.served += town.day(day, options.slates, options.search_share)
            console.print(_table(day, [one for one in story.served if one.day == day]))
            if day + 1 < options.days:
                story.nights.append(report := night(directory, options.config))
                console.print(f"  At night: {report['outcome']}, {report['why']}.\n")
                if report["outcome"] == "promoted":
                    wait_for(client, report["serving"])
        story.experiment = client.get("/v1/experiment").raise_for_status().json()
        if options.stay:
            analyse(story, directory, options, console)
            stay(town, options, console)
    return story


def stay(town: Town, options: argparse.Namespace, console: Console) -> None:
    """Let users go on coming, a few slates a second, until somebody ends it."""
    console.print(f"\nThe shop stays open: {town.address} has its page. Ctrl-C ends it.")
    with suppress(KeyboardInterrupt):
        for day in itertools.count(options.days):
            town.day(day, options.slates / 10, options.search_share, pause=0.05)
            time.sleep(1)


def analyse(story: Story, directory: Path, options: argparse.Namespace, console: Console) -> None:
    """Say how much better slates became, and let the service tell what its arms came to."""
    first, last = (
        expected([one for one in story.served if one.day == day]) for day in (0, options.days - 1)
    )
    console.print(
        f"A slate of day 0 was clicked with a chance of {first[0]:.1%}, "
        f"one of the last day with {last[0]:.1%}.\n"
    )
    command = [*SLATEWISE, "analyse", str(directory), "--config", str(options.config)]
    subprocess.run(command, check=True, env=os.environ | {"COLUMNS": "100"})


def _table(day: int, served: Sequence[Served]) -> Table:
    table = Table(title=f"Day {day}", title_justify="left", box=None)
    for column in ("arm", "model", "slates", "click rate", "expected", "±"):
        table.add_column(column, justify="left" if column == "arm" else "right", min_width=9)
    for arm in sorted({one.arm for one in served}):
        mine = [one for one in served if one.arm == arm]
        # The prior's number tells which items it is of, which is no news here.
        versions = ", ".join(dict.fromkeys(one.version.split("-")[0] for one in mine))
        mean, error = expected(mine)
        clicks = float(np.mean([one.clicked for one in mine]))
        numbers = [f"{clicks:.1%}", f"{mean:.1%}", f"{1.96 * error:.1%}"]
        table.add_row(arm, versions, f"{len(mine):,}", *numbers)
    return table


def expected(served: Sequence[Served]) -> tuple[float, float]:
    """Return the mean exact probability of a click, and its standard error over users."""
    by_user: dict[int, list[float]] = {one.user: [] for one in served}
    for one in served:
        by_user[one.user].append(one.probability)
    sums = np.array([[sum(chances), len(chances)] for chances in by_user.values()])  # [U, 2]
    mean = sums[:, 0].sum() / sums[:, 1].sum()
    spread = np.square(sums[:, 0] - mean * sums[:, 1]).sum()
    return float(mean), float(np.sqrt(spread) / sums[:, 1].sum())


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, default=HERE / "service.toml")
    parser.add_argument("--preset", default="tiny", help="world of the simulator")
    parser.add_argument("--users", type=int, help="how many; the preset's number without it")
    parser.add_argument("--past", type=int, default=3, help="searches of each user before")
    parser.add_argument("--days", type=int, default=6)
    parser.add_argument("--slates", type=float, default=3.0, help="of each user on a day")
    parser.add_argument("--search-share", type=float, default=0.4, help="of these slates")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--port", type=int, default=0, help="of the service; 0 takes a free one")
    parser.add_argument("--stay", action="store_true", help="keep the shop open, for its page")
    parser.add_argument("--keep", type=Path, help="directory of the service, to look at later")
    return parser.parse_args(words)


def main() -> None:
    """Play, then let the service itself tell what its arms came to."""
    options, console = parse(), Console(width=100)
    with tempfile.TemporaryDirectory() as scratch:
        directory = options.keep or Path(scratch) / "service"
        story = play(options, directory, console)
        if not options.stay:
            analyse(story, directory, options, console)
            console.print(
                "\nThe service has ended. To look at its page, keep it open: make serve-demo STAY=1"
            )


if __name__ == "__main__":
    main()
