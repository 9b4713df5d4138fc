from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.experiments.posterior import (
    STUDY,
    PosteriorConfig,
    group_distances,
    histogram,
    rank_correlation,
    resample_correlation,
)
from slatewise.experiments.study import run_study
from slatewise.model.config import ModelConfig
from slatewise.training import TrainingConfig, fit
from tests.experiments.conftest import QUICK


def config(**values: Any) -> PosteriorConfig:
    quick = {"seeds": (0, 1), "preset": "tiny", "training": {"max_epochs": 25}, "resamples": 100}
    return PosteriorConfig.build(quick | values, "test")


def test_spearman_by_hand() -> None:
    # d = (0, 1, 1, 0): 1 − 6 · 2 / (4 · 15) = 0.8
    assert rank_correlation([1, 2, 3, 4], [10, 30, 20, 40]) == pytest.approx(0.8)
    assert rank_correlation([1, 2, 3], [9, 4, 1]) == pytest.approx(-1)
    # Ties share their ranks: (1, 2.5, 2.5, 4) against (1, 2, 3, 4).
    tied = np.corrcoef([1, 2.5, 2.5, 4], [1, 2, 3, 4])[0, 1]
    assert rank_correlation([1, 5, 5, 9], [1, 2, 3, 4]) == pytest.approx(tied)
    assert np.isnan(rank_correlation([1, 1], [1, 2]))


def test_the_interval_of_a_correlation_covers_where_groups_share_their_luck() -> None:
    """Of 60 worlds without a correlation at least 52 intervals hold 0; over items, far fewer do."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 10)
    covered = covered_by_items = 0
    for _ in range(60):
        views = (rng.normal(size=30)[groups] + 0.3 * rng.normal(size=300)).argsort().argsort() + 1
        values = rng.normal(size=30)[groups] + 0.3 * rng.normal(size=300)
        for_groups = resample_correlation(views, values, groups, 80, rng)
        low, high = np.quantile(for_groups, [0.025, 0.975])
        covered += low <= 0 <= high
        for_items = resample_correlation(views, values, np.arange(300), 80, rng)
        low, high = np.quantile(for_items, [0.025, 0.975])
        covered_by_items += low <= 0 <= high
    assert covered >= 52
    assert covered_by_items < 42


def test_a_histogram_holds_every_item_once_in_its_cell() -> None:
    rng = np.random.default_rng(0)
    views, values = rng.integers(1, 500, size=400), rng.gamma(2.0, size=400)
    cells = histogram(views, values)
    assert sum(cell["items"] for cell in cells) == 400
    for cell in cells:
        inside = (views >= cell["views_from"]) & (views < cell["views_to"])
        inside &= (values >= cell["from"]) & (values < cell["from"] + cell["step"])
        assert inside.sum() == cell["items"]


def test_distances_are_to_the_mean_of_the_own_group(tiny: SlateDataset) -> None:
    model = fit(tiny, ModelConfig(), TrainingConfig(**QUICK))
    means = model.posterior.shared["group_means"].mean.detach().numpy()
    for item in (0, 57, 199):
        group = int(model.posterior.item_groups[item])
        expected = np.sqrt(((model.item_vectors[item] - means[group]) ** 2).sum())
        assert group_distances(model)[item] == pytest.approx(expected, rel=1e-5)


def test_views_narrow_the_posterior_and_carry_items_away(tmp_path: Path) -> None:
    result = run_study(STUDY, config(), tmp_path)
    distance, scale = result.findings
    assert (distance.verdict, distance.agreement) == ("above", "agrees")
    assert (scale.verdict, scale.agreement) == ("below", "agrees")
    counted = result.tables["figures"].group_by("measure").agg("items").to_dicts()
    seen = result.tables["items"]["seen"].sum()
    assert [sum(row["items"]) for row in counted] == [seen, seen]


def test_a_run_is_looked_at_as_it_is(tiny: SlateDataset, tmp_path: Path) -> None:
    fit(tiny, ModelConfig(), TrainingConfig(**QUICK), run=tmp_path / "run")
    result = run_study(STUDY, config(run=tmp_path / "run"), tmp_path / "out")
    assert len(result.about["units"]) == 1
    assert "dataset" not in result.tables
    with pytest.raises(SlatewiseError, match="leave the dataset out"):
        config(run=tmp_path / "run", dataset=tiny.path)


def test_a_run_without_groups_is_refused(tiny: SlateDataset, tmp_path: Path) -> None:
    fit(tiny, ModelConfig(prior="flat"), TrainingConfig(**QUICK), run=tmp_path / "run")
    with pytest.raises(SlatewiseError, match="no group means") as error:
        run_study(STUDY, config(run=tmp_path / "run"), tmp_path / "out")
    assert "hierarchical" in error.value.remedy
