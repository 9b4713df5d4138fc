"""Where the paper's claims hold: a grid, examples/claims.toml, in the worlds that time allows.

Runs `slatewise experiment claims` world by world, `--jobs` units at once, until all is done or
`--limit` seconds have passed, and gathers the worlds in which every site is finished: the time
decides how many these are, never what came out. `--units FILE` packs finished units into one file
as they come, and takes up those that are in it already, so that a run can be stopped, moved to
another machine, and resumed. `--picture` draws the maps: points of click rate, a star where the
95 % interval leaves 0 out, a line where the sign changes. Of that many intervals some leave 0 out
by chance: `stands` are those that do so by Holm's correction over all rows. `--confirm RESULTS`
asks the sites where in-slate Thompson holds on its own log again, in the worlds `--seeds`.
"""

import argparse
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

import drawing
from harness import Row, Target, circumstances, kept, parse, parser, report
from slatewise.experiments.claims import OPEN, STUDY, TURN, YES, ClaimsConfig
from slatewise.experiments.store import Store, Tables
from slatewise.experiments.study import Bench, Unit, run_study, study_config

CONFIG = Path(__file__).parent.parent / "examples" / "claims.toml"
OVER: dict[str, Any] = {}
OWN_DATA = "in-slate, own data"
PACKED_EVERY, RUN = 20.0, "run.json"
MINIATURE = {
    "OVER": {
        **{"preset": "tiny", "users": 30, "window": 3, "stay": 6, "days": 1, "own_days": 1},
        **{"lives": (0.0,), "shares": (0.3,), "kinds": {"site": {"offered": 100}}},
        **{"training": {"max_epochs": 1}, "nightly": {"max_epochs": 1}, "resamples": 50},
        "simulation": {},
    },
    "seeds": "0",
}


def config_of(seeds: str | None, file: Path = CONFIG) -> ClaimsConfig:
    """Return the settings of the study."""
    given = None if seeds is None else tuple(int(seed) for seed in seeds.split(","))
    return study_config(STUDY, file, **(OVER | {"seeds": given}))


def run_until(command: list[str], limit: float, folder: Path, units: Path | None, run: Row) -> None:
    """Run a command in a process group of its own for so long, packing what it leaves."""
    process = subprocess.Popen(command, start_new_session=True)
    end = time.monotonic() + limit
    try:
        while process.poll() is None and time.monotonic() < end:
            time.sleep(min(PACKED_EVERY, max(0.0, end - time.monotonic())))
            pack(folder, units, run)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # finished units are whole files
        process.wait()
        pack(folder, units, run)


def pack(folder: Path, units: Path | None, run: Row) -> None:
    """Write the finished units of a study, and how they were run, into one file."""
    if units is None or not (folder / "study.json").exists():
        return
    files = [folder / "study.json", *sorted((folder / "units").glob("*.json"))]
    texts = {str(file.relative_to(folder)): file.read_text("utf-8") for file in files}
    texts[RUN] = json.dumps(run)
    partial = units.with_name(f"{units.name}.partial")
    with gzip.open(partial, "wt", compresslevel=4, encoding="utf-8") as stream:
        json.dump(texts, stream)
    partial.replace(units)


def unpack(folder: Path, units: Path | None) -> None:
    """Put the units of a file where the study looks for them, unless it has begun there."""
    if units is None or not units.exists() or folder.exists():
        return
    with gzip.open(units, "rt", encoding="utf-8") as stream:
        for name, text in json.load(stream).items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")


def gathered(config: ClaimsConfig, folder: Path) -> tuple[ClaimsConfig, Tables, float]:
    """Return the worlds in which every site is finished, their tables, and CPU minutes."""
    store, units = Store(folder), STUDY.units(config)
    done = {unit: record for unit in units if (record := store.unit(unit.name)) is not None}
    whole = [
        seed for seed in config.seeds if all(unit in done for unit in units if unit.seed == seed)
    ]
    if not whole:
        sys.exit(f"No world is finished: {len(done)} of {len(units)} units are.")
    tables: Tables = {}
    minutes = 0.0
    for unit, record in done.items():
        if unit.seed in whole:
            minutes += record.cpu_seconds / 60
            for name, rows in record.tables.items():
                tables.setdefault(name, []).extend(rows)
    return config.model_copy(update={"seeds": tuple(whole)}), tables, minutes


def draw(rows: list[Row], config: ClaimsConfig, file: Path) -> None:
    """Draw the map of each claim (down) in each kind of site (across)."""
    cells = {(row["claim"], row["kind"], row["life"], row["search"]): row for row in rows}
    panels = [
        [
            drawing.Map(
                f"{text}: {kind}",
                [f"{share:.0%} search" for share in config.shares],
                [f"{life:g} h" if life else "for ever" for life in config.lives],
                [
                    [_cell(cells[claim, kind, life, share]) for share in config.shares]
                    for life in config.lives
                ],
            )
            for kind in config.kinds
        ]
        for claim, text in SHORT.items()
        if any(key[0] == claim for key in cells)
    ]
    drawing.maps(file, "Where the paper's claims hold, in points of click rate", panels)


def correct(rows: list[Row]) -> None:
    """Add to each row its p-value, and whether it stands among all of them (Holm, 1979).

    The p-value is that of Student's test whose interval the row has.
    """
    for row in rows:
        edge = row["low"] if row["value"] > 0 else row["high"]
        free = len(row["by_seed"]) - 1
        error = abs(row["value"] - edge) / stdtrit(free, 0.975)
        row["p"] = float(2 * stdtr(free, -abs(row["value"]) / error)) if error > 0 else 1.0
    left = len(rows)
    stands = True
    for row in sorted(rows, key=lambda one: float(one["p"])):
        stands = stands and row["p"] <= 0.05 / left
        row["stands"] = stands and row["holds"] != OPEN
        left -= 1


def confirmed(rows: list[Row], config: ClaimsConfig, keep: Path | None) -> list[Row]:
    """Ask the sites where in-slate Thompson holds on its own log again, in other worlds."""
    found: list[Row] = []
    for row in rows:
        if row["claim"] != OWN_DATA or row["holds"] != YES:
            continue
        site = {name: (row[one],) for name, one in (("lives", "life"), ("shares", "search"))}
        own = config.model_copy(update=site | {"kinds": {row["kind"]: config.kinds[row["kind"]]}})
        tables: Tables = {}
        commits = set()
        for unit in STUDY.units(own):
            if unit.part.endswith("-pooled"):
                continue
            made = kept(keep, f"{unit.name}", partial(_unit, own, unit))
            commits.add(made["commit"])
            for name in ("shown", "nights"):
                tables.setdefault(name, []).extend(made[name])
        again = STUDY.summarise(own, tables).tables["map"]
        found += [one | {"commits": sorted(commits), "seeds": own.seeds} for one in again]
    return found


def _unit(config: ClaimsConfig, unit: Unit) -> Row:
    """Run a unit of the study; return its tables and the commit."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), Path(folder), lambda *about: None)
        tables = STUDY.run(config, unit, bench)
    return {**tables, "commit": circumstances()["commit"]}


SHORT = {
    "gru": "GRU over linear",
    "all-item": "all-item over slate",
    "in-slate": "in-slate Thompson, one log",
    "in-slate, own data": "in-slate Thompson, own log",
}


def _cell(row: Row) -> drawing.Cell:
    return drawing.Cell(row["value"], row["holds"] != OPEN)


def confirm(options: argparse.Namespace) -> None:
    """Ask what holds by a file of results again, in the worlds `--seeds`."""
    rows = json.loads(options.confirm.read_text("utf-8"))["rows"]
    found = confirmed(rows, config_of(options.seeds, options.config), options.keep)
    correct(found)
    for row in found:
        row["interval"] = f"{row['low']:+.4f} … {row['high']:+.4f}"
    columns = {"kind": "{}", "life": "{:g}", "search": "{:.0%}", "value": "{:+.4f}"}
    columns |= {"interval": "{}", "holds": "{}", "p": "{:.4f}", "stands": "{}"}
    report(options, "What holds, in other worlds", columns, found, [])


def main() -> None:
    """Run what is missing, gather, and draw."""
    arguments = parser(__doc__)
    arguments.add_argument("--config", type=Path, default=CONFIG, help="settings of the grid")
    arguments.add_argument("--out", type=Path, help="where the study is kept; else it is not")
    arguments.add_argument("--units", type=Path, help="file to pack finished units into (.json.gz)")
    arguments.add_argument("--seeds", help="worlds, such as 0,1,2; else those of the example")
    arguments.add_argument("--jobs", type=int, default=1)
    arguments.add_argument("--limit", type=float, default=1e9, help="seconds")
    arguments.add_argument("--commit", help="of the code, where git cannot tell")
    arguments.add_argument("--picture", type=Path, help="draw the maps into this file (.svg)")
    arguments.add_argument("--work", action="store_true", help="only run, in this process")
    arguments.add_argument(
        "--confirm", metavar="RESULTS", type=Path, help="ask what holds there again"
    )
    options = parse(arguments, globals())
    if options.confirm:
        confirm(options)
        return
    with tempfile.TemporaryDirectory() as scratch:
        out = options.out or Path(scratch)
        config, folder = config_of(options.seeds, options.config), out / STUDY.name
        if options.work or options.small:
            run_study(STUDY, config, out, jobs=options.jobs)
        if options.work:
            return
        run = circumstances() | {"cores": os.cpu_count()}
        run |= {"commit": options.commit} if options.commit else {}
        if not options.small:
            unpack(folder, options.units)
            if (folder / RUN).exists():
                run = json.loads((folder / RUN).read_text("utf-8"))
            command = [sys.executable, __file__, "--work", "--out", str(out)]
            command += ["--config", str(options.config)]
            command += ["--jobs", str(options.jobs)]
            command += ["--seeds", options.seeds] if options.seeds else []
            run_until(command, options.limit, folder, options.units, run)
        config, tables, minutes = gathered(config, folder)
        found = STUDY.summarise(config, tables)
    rows = found.tables["map"]
    correct(rows)
    if options.picture:
        draw(rows, config, options.picture)
    shown = [row | {"interval": f"{row['low']:+.4f} … {row['high']:+.4f}"} for row in rows]
    columns = {
        **{"claim": "{}", "kind": "{}", "life": "{:g}", "search": "{:.0%}"},
        **{"views_per_item": "{:.0f}", "value": "{:+.4f}", "interval": "{}", "holds": "{}"},
        **{"p": "{:.4f}", "stands": "{}"},
    }
    title = f"The paper's claims in {len(config.seeds)} worlds of each site"
    more: Row = {name: found.tables[name] for name in ("means", "headline")}
    more |= {"seeds": config.seeds, "cpu_minutes": minutes, "run": run}
    more["settings"] = config.model_dump(mode="json", exclude={"seeds", "dataset"})
    smallest = [row["smallest"] for row in rows if row["claim"] != TURN]
    target = Target("smallest effect seen in half of the sites", float(np.median(smallest)), 0.03)
    report(options, title, columns, shown, [target], **more)


if __name__ == "__main__":
    main()
