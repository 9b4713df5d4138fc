"""Whether items stay does not depend on how much of a log there is."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.data.formats import LogFormat
from slatewise.data.preparation import prepare
from slatewise.features.turnover import items_stay, share_still_shown

ITEMS, HOURS = 60, 48


def dataset(folder: Path, slates: int, life: float, old: float = 0.0) -> SlateDataset:
    """Draw slates over two days of items that live for some hours, and of any old one now and then.

    What is shown is skewed: most views go to few items.
    """
    rng, rows = np.random.default_rng(4), []
    born = rng.permutation(np.linspace(-life, HOURS, ITEMS))
    appeal = rng.exponential(size=ITEMS)
    for number in range(slates):
        hour = HOURS * number / slates
        alive = (born < hour) & (hour < born + life) | (rng.random(ITEMS) < old)
        shares = alive * appeal + 1e-9
        slate = rng.choice(ITEMS, 4, replace=False, p=shares / shares.sum())
        time = 1_700_000_000 + int(3_600 * hour)
        same = {"user_id": number % 40, "time": time, "source": "page"}
        rows.append(same | {"slate": slate.tolist(), "click": int(slate[0])})
    pl.DataFrame(rows).write_parquet(folder / "log.parquet")
    items = pl.DataFrame({"item_id": range(ITEMS), "group": ["all"] * ITEMS})
    items.write_parquet(folder / "items.parquet")
    return prepare(
        folder / "log.parquet",
        folder / "items.parquet",
        folder / "set",
        log_format=LogFormat(time_unit="s"),
    )


@pytest.mark.parametrize("slates", [120, 4_000])
def test_a_shop_stays_at_any_size(slates: int, tmp_path: Path) -> None:
    shop = dataset(tmp_path, slates, life=1_000)
    assert items_stay(shop)
    assert share_still_shown(shop) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("slates", [120, 4_000])
def test_news_go_at_any_size_though_old_ones_are_shown_now_and_then(
    slates: int, tmp_path: Path
) -> None:
    news = dataset(tmp_path, slates, life=10, old=0.02)
    assert not items_stay(news)
    times, lengths = np.asarray(news.times), np.diff(news.slate_offsets)
    late = np.repeat(times >= np.quantile(times, 2 / 3), lengths)
    if slates > 1_000:  # by now, nearly everything was shown once more
        assert len(np.unique(news.slate_items[late])) > 0.9 * ITEMS
