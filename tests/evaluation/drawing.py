"""Random interactions and predictions, and the toy world with an obvious answer."""

from pathlib import Path

import numpy as np
import polars as pl
import torch
from hypothesis import strategies as st

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import Predictions
from slatewise.evaluation.predictions import Slates

seeds = st.integers(0, 2**32 - 1)


def random_interactions(
    rng: np.random.Generator, users: int = 6, items: int = 9, sources: int = 2, longest: int = 5
) -> Interactions:
    """Users with 0 to 7 interactions, slates of 1 to `longest` distinct items."""
    counts = rng.integers(0, 8, users)
    total = int(counts.sum())
    lengths = rng.integers(1, longest + 1, total)
    slates = [rng.choice(items, size=length, replace=False) for length in lengths]
    train_end = rng.integers(0, counts + 1)
    return Interactions(
        user_offsets=torch.tensor([0, *np.cumsum(counts)]),
        train_end=torch.tensor(train_end, dtype=torch.int32),
        valid_end=torch.tensor(rng.integers(train_end, counts + 1), dtype=torch.int32),
        times=torch.arange(total),
        sources=torch.tensor(rng.integers(0, sources, total), dtype=torch.uint8),
        clicks=torch.tensor(rng.integers(-1, lengths), dtype=torch.int32),
        slate_offsets=torch.tensor([0, *np.cumsum(lengths)]),
        slate_items=torch.tensor(np.concatenate([*slates, []]), dtype=torch.int32),
    )


def random_predictions(rng: np.random.Generator, users: int = 6, sources: int = 2) -> Predictions:
    """Predictions with many equal probabilities."""
    interactions = random_interactions(rng, users, sources=sources)
    slates = Slates.of(interactions, torch.ones(len(interactions.clicks), dtype=torch.bool))
    utilities = rng.integers(0, 3, len(slates.items)).astype(float)
    return Predictions.from_utilities(slates, utilities, rng.normal(size=len(slates)))


def rows_of(predictions: Slates, values: np.ndarray) -> list[list[float]]:
    """The cells of each slate, as lists."""
    ends = predictions.offsets
    return [values[ends[n] : ends[n + 1]].tolist() for n in range(len(predictions))]


LOVED, DUDS = 8, 16


def toy_world(path: Path, users: int = 240) -> SlateDataset:
    """A world whose answer is obvious.

    Items 0..7 are loved, 8..23 are duds that nobody clicks. Every user walks around the ring of
    loved items: after i comes (i + 1) mod 8. A slate holds the next item of the walk, another
    loved one and two duds; the next item is clicked 9 times of 10, otherwise nothing.
    """
    rng = np.random.default_rng(3)
    rows = []
    for user in range(users):
        at = int(rng.integers(LOVED))
        for time in range(12):
            following = (at + 1) % LOVED
            other = (following + int(rng.integers(1, LOVED))) % LOVED
            duds = rng.choice(DUDS, 2, replace=False) + LOVED
            slate = rng.permutation([following, other, *duds]).tolist()
            clicked = rng.random() < 0.9
            at = following if clicked else at
            rows.append((user, time, slate, following if clicked else None, "search"))
    columns = ["user_id", "time", "slate", "click", "source"]
    path.mkdir()
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(path / "log.parquet")
    items = {"item_id": range(LOVED + DUDS), "group": ["loved"] * LOVED + ["dud"] * DUDS}
    pl.DataFrame(items).write_parquet(path / "items.parquet")
    split = SplitConfig(valid_share=0.15, test_share=0.15, prefix=4)
    return prepare(path / "log.parquet", path / "items.parquet", path / "dataset", division=split)
