"""What a log says of how much items differ, without a model."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.model.config import ModelConfig
from slatewise.training import TrainingConfig, fit
from slatewise.training.item_quality import item_qualities, qualities_of, with_spread


def quality_spread(dataset: SlateDataset) -> float:
    found = item_qualities(dataset)
    assert found is not None
    return found.spread


BIAS = {"terms": ["bias"]}
ONE_STEP = TrainingConfig(max_epochs=1, batch_users=200)


def log_of(folder: Path, spread: float, *, between: float = 0.0, size: int = 5) -> SlateDataset:
    """Make 1,500 choices of 200 users among 120 items of 6 groups, whose qualities have a spread.

    `between` is the spread of what the items of a group have in common; a slate has `size` items.
    """
    rng = np.random.default_rng(1)
    groups = np.arange(120) % 6
    quality = spread * rng.standard_normal(120) + between * rng.standard_normal(6)[groups]
    rows = []
    for number in range(1_500):
        slate = rng.choice(120, size=size, replace=False)
        weights = np.append(np.exp(quality[slate]), 3.0 if size > 1 else 0.0)
        choice = int(rng.choice(size + 1, p=weights / weights.sum()))
        click = int(slate[choice]) if choice < size else None
        row = {"user_id": number % 200, "time": number, "source": "front page"}
        rows.append(row | {"slate": slate.tolist(), "click": click})
    folder.mkdir()
    pl.DataFrame(rows).write_parquet(folder / "log.parquet")
    table = {"item_id": range(120), "group": [f"g{group}" for group in groups]}
    pl.DataFrame(table).write_parquet(folder / "items.parquet")
    division = SplitConfig(valid_share=0.1, test_share=0.0, prefix=5)
    files = folder / "log.parquet", folder / "items.parquet", folder / "dataset"
    return prepare(*files, division=division)


@pytest.mark.parametrize("spread", [0.4, 0.8, 1.5])
def test_the_spread_of_qualities_is_found(tmp_path: Path, spread: float) -> None:
    found = quality_spread(log_of(tmp_path / "log", spread))
    assert found == pytest.approx(spread, rel=0.3)


def test_what_the_items_of_a_group_have_in_common_is_no_spread(tmp_path: Path) -> None:
    alone = quality_spread(log_of(tmp_path / "alone", 0.4))
    shared = quality_spread(log_of(tmp_path / "shared", 0.4, between=1.0))
    assert shared == pytest.approx(alone, rel=0.3)


def test_a_log_of_clicks_alone_says_nothing(tmp_path: Path) -> None:
    dataset = log_of(tmp_path / "log", 1.0, size=1)
    assert item_qualities(dataset) is None
    given = ModelConfig(terms=("bias",))
    assert with_spread(given, qualities_of(given, dataset)) is given


def test_item_biases_start_as_wide_as_the_log_says(tmp_path: Path) -> None:
    dataset = log_of(tmp_path / "log", 1.5)
    spread = quality_spread(dataset)
    model = fit(dataset, ModelConfig(terms=("bias",), dimensions=2), ONE_STEP)
    assert model.config.kappa_bias == spread
    assert model.posterior.shared["group_spreads"].mean[:, 2].tolist() == pytest.approx(
        [spread] * 6, abs=0.05
    )
    flat = fit(dataset, ModelConfig(terms=("bias",), prior="flat", dimensions=2), ONE_STEP)
    assert flat.config.sigma_bias == spread


def test_what_is_given_stays_and_nights_have_the_spread_of_the_first(tmp_path: Path) -> None:
    dataset = log_of(tmp_path / "log", 1.5)
    given, asked = (
        ModelConfig.build(BIAS | {"kappa_bias": 0.3}, "test"),
        ModelConfig.build(BIAS, "test"),
    )
    assert with_spread(given, item_qualities(dataset)) is given
    assert with_spread(asked, None, given) == given
    all_items = ModelConfig(terms=("bias",), likelihood="all-item")
    assert [qualities_of(one, dataset) for one in (given, ModelConfig(), all_items)] == [None] * 3
