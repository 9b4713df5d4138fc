"""Where counting clicks is ahead of slatewise: greedy slates that learn between nights, beside it.

Each serves a world of its own, as in `bandits.py`, untuned: slatewise with its defaults, and
popularity, clicks per view that fade, without chance. Groups of the mislabelled shops are drawn at
random, so that they say nothing; `busy` has three times the users, `quiet` items that differ
little in quality. `grouped` is the cold shop with items that differ little within their groups.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bandits
from harness import Row, Target, kept, parse, parser, report
from slatewise.experiments.pooling import over_worlds

OURS, COUNTING = "slatewise, greedy, learning", "popularity, ε-greedy"
SETTINGS: dict[str, dict[str, Any]] = {OURS: {}, COUNTING: {"epsilon": 0.0}}
FIRST_SEED = 2_000
"""Beyond those that `bandits.py` tunes and reports on."""


def _with_quality(world: str, spread: float) -> dict[str, Any]:
    simulation = bandits.WORLDS[world]["simulation"]
    return bandits.WORLDS[world] | {
        "simulation": simulation | {"effects": simulation["effects"] | {"quality_sd": spread}}
    }


WORLDS = bandits.WORLDS | {
    "busy mislabelled shop": bandits.WORLDS["mislabelled shop"] | {"users": 450},
    "quiet mislabelled shop": _with_quality("mislabelled shop", 0.3),
    "grouped shop": _with_quality("cold shop", 0.4),
}
MINIATURE = {"WORLDS": bandits.MINIATURE["WORLDS"], "seeds": 2}


def measured(world: str, policy: str, seed: int) -> Row:
    """Return the click rate and regret of a policy in one world."""
    run = bandits.served(world, policy, SETTINGS[policy], seed)
    what = {"rate": bandits.rate_of(run), "regret": bandits.regret_of(run)}
    return what | {"minutes": run["minutes"]}


def row_of(world: str, seeds: int, keep: Path | None) -> Row:
    """Return the click rates and regrets of both in a kind of world, and how far they are apart."""
    row: Row = {"world": world, "seeds": [*range(FIRST_SEED, FIRST_SEED + seeds)], "minutes": 0.0}
    runs: dict[str, list[Row]] = {}
    for policy in SETTINGS:
        for seed in row["seeds"]:
            make = partial(measured, world, policy, seed)
            runs.setdefault(policy, []).append(kept(keep, f"{world} {policy} {seed}", make))
            row["minutes"] += runs[policy][-1]["minutes"]
    for name in ("rate", "regret"):
        ours, counting = (np.array([run[name] for run in found]) for found in runs.values())
        apart = ours - counting
        found = over_worlds(apart.tolist(), np.repeat(apart[:, None], 2, axis=1).tolist())
        row |= {name: float(ours.mean()), f"{name}_counting": float(counting.mean())}
        row |= {f"{name}_more": found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        row |= {f"{name}_interval": f"{found.low:+.4f} … {found.high:+.4f}"}
        row |= {f"{name}_by_seed": ours.tolist(), f"{name}_counting_by_seed": counting.tolist()}
    return row


def main() -> None:
    """Let both serve all kinds of worlds."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=20)
    options = parse(arguments, globals())
    bandits.WORLDS.update(WORLDS)
    rows = [row_of(world, options.seeds, options.keep) for world in WORLDS]
    columns = {"world": "{}"} | {
        f"{name}{part}": pattern
        for name in ("rate", "regret")
        for part, pattern in {"": "{:.4f}", "_counting": "{:.4f}", "_more": "{:+.4f}"}.items()
    }
    columns |= {"rate_interval": "{}", "regret_interval": "{}", "minutes": "{:.1f}"}
    targets = [
        Target(f"{row['world']}: regret over counting", row["regret_more"], 0) for row in rows
    ]
    report(
        options, "Greedy slates that learn between nights, beside counting", columns, rows, targets
    )


if __name__ == "__main__":
    main()
