"""Rows of a log to write, and what a preparation found wrong with them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from slatewise.data import SlateDataset

Write = Callable[..., tuple[Path, Path]]
"""What the fixture `write_log` is."""


def row(**changes: Any) -> dict[str, Any]:
    usual = {
        "user_id": "ann",
        "time": 1,
        "slate": ["a", "b", "c"],
        "click": "b",
        "source": "search",
    }
    return usual | changes


def found(dataset: SlateDataset) -> dict[str, tuple[int, int]]:
    return {p["what"]: (p["count"], p["row"]) for p in dataset.meta["report"]["problems"]}


GOOD = row(time=9)


def many(users: int, steps: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(users):
        for time in range(steps):
            slate = rng.choice(60, size=rng.integers(1, 40), replace=False).tolist()
            click = slate[rng.integers(len(slate))] if rng.random() < 0.5 else None
            rows.append(row(user_id=user, time=time, slate=slate, click=click))
    return rows
