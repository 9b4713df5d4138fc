from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.features import PopularityConfig, search_half_lives

ITEMS, SLATE, SLATES = 60, 6, 6_000


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


def test_without_a_click_among_several_items_there_is_nothing_to_search(tmp_path: Path) -> None:
    log = {"user_id": [1], "time": [datetime(2024, 5, 17)], "slate": [[1]], "click": [1]}
    pl.DataFrame(log).with_columns(source=pl.lit("a")).write_parquet(tmp_path / "log.parquet")
    pl.DataFrame({"item_id": [1], "group": ["g"]}).write_parquet(tmp_path / "items.parquet")
    dataset = prepare(tmp_path / "log.parquet", tmp_path / "items.parquet", tmp_path / "dataset")
    with pytest.raises(SlatewiseError, match="two items or more"):
        search_half_lives(dataset)
