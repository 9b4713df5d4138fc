from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.features import PopularityConfig, half_lives_of, search_half_lives
from tests.evaluation.drawing import toy_world
from tests.model.terms.logs import START, Rows, dataset_of

ITEMS, SLATE, SLATES = 60, 6, 6_000
DAYS = 20


def fashion(path: Path, half_life: float, pull: float = 1.5) -> SlateDataset:
    """Simulate people who click what others clicked lately: P ∝ (1 + decayed clicks)^pull.

    A slate of random items every two minutes.
    """
    rng = np.random.default_rng(0)
    clicks, decay = np.zeros(ITEMS), 0.5 ** (1 / (30 * half_life))
    slates, chosen = [], []
    for _ in range(SLATES):
        clicks *= decay
        slate = rng.permutation(ITEMS)[:SLATE]
        share = (1 + clicks[slate]) ** pull
        click = slate[np.searchsorted(share.cumsum() / share.sum(), rng.random())]
        clicks[click] += 1
        slates.append(slate.tolist())
        chosen.append(int(click))
    start = datetime(2024, 5, 17)
    times = [start + timedelta(minutes=2 * n) for n in range(SLATES)]
    log = {"user_id": range(SLATES), "time": times, "slate": slates, "click": chosen}
    path.mkdir()
    pl.DataFrame(log).with_columns(source=pl.lit("front")).write_parquet(path / "log.parquet")
    items = {"item_id": range(ITEMS), "group": ["g"] * ITEMS}
    pl.DataFrame(items).write_parquet(path / "items.parquet")
    return prepare(path / "log.parquet", path / "items.parquet", path / "dataset")


@pytest.mark.parametrize("half_life", [1.0, 6.0, 40.0])
def test_the_half_life_of_a_fashion_is_found_within_a_factor_of_two(
    tmp_path: Path, half_life: float
) -> None:
    found = search_half_lives(fashion(tmp_path / "log", half_life), most=1)
    assert half_life / 2 <= found.chosen[0] <= 2 * half_life
    assert found.gains[found.chosen[0]] == max(found.gains.values()) > 0.01


def test_a_second_half_life_has_to_pay_for_itself(tmp_path: Path) -> None:
    dataset = fashion(tmp_path / "log", 4.0)
    assert len(search_half_lives(dataset, most=2).chosen) == 1


def test_the_search_repeats_itself(tmp_path: Path) -> None:
    dataset = fashion(tmp_path / "log", 4.0)
    settings = PopularityConfig(refresh=600)
    assert search_half_lives(dataset, settings, most=1) == search_half_lives(
        dataset, settings, most=1
    )


def rows_of_trends(hours: float) -> Rows:
    """Draw feeds of single items whose chance to be clicked changes at random, every so often."""
    rng = np.random.default_rng(2)
    periods = int(DAYS * 24 / hours) + 1
    liked = rng.random((periods, 12)) < 0.5
    rows: Rows = []
    for user in range(600):
        for second in np.sort(rng.integers(0, DAYS * 86_400, 15)).tolist():
            item = int(rng.integers(12))
            clicked = rng.random() < (0.9 if liked[int(second / 3_600 / hours), item] else 0.1)
            rows.append(
                {
                    "user_id": user,
                    "time": START + second,
                    "slate": [item],
                    "click": item if clicked else None,
                    "source": "feed",
                }
            )
    return rows


def test_fast_trends_have_shorter_half_lives_than_slow_ones(tmp_path: Path) -> None:
    """An item is seen about every 40 minutes; likes last 12 hours, or the whole log."""
    fast = half_lives_of(dataset_of(tmp_path / "fast", rows_of_trends(12)))
    slow = half_lives_of(dataset_of(tmp_path / "slow", rows_of_trends(10_000)))
    assert fast[0] in (1.0, 4.0)
    assert slow[0] > fast[0]


def test_times_that_are_only_an_order_have_the_usual_ones(tmp_path: Path) -> None:
    assert half_lives_of(toy_world(tmp_path / "toy")) == (2.0, 24.0, 96.0)
