"""Positions matter more in some sources, and to users who come for the first time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.interactions import SeveralClicks
from slatewise.evaluation import ModelRecommender, evaluate
from slatewise.features.cells import slates_before
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.training import TrainingConfig, fit
from tests.features.logs import first_of_showing, random_log
from tests.model.terms.logs import ITEMS, START, Rows, dataset_of

SLOPE, RETURNING, SEARCH = -0.9, 0.35, 1.6
QUICK = TrainingConfig(max_epochs=15, batch_users=16, learning_rate=0.1)


def visits(seed: int, users: int = 160) -> Rows:
    """Draw clicks that only positions explain."""
    rng, rows = np.random.default_rng(seed), Rows()
    for user in range(users):
        for number in range(5):
            source = ("front page", "search")[int(rng.integers(2))]
            factor = (RETURNING if number else 1.0) * (SEARCH if source == "search" else 1.0)
            worth = np.append(SLOPE * factor * np.arange(5), -1.0)
            position = int(rng.choice(6, p=np.exp(worth) / np.exp(worth).sum()))
            slate = rng.permutation(ITEMS)[:5].tolist()
            click = slate[position] if position < 5 else None
            rows.append(
                {"user_id": user, "time": START + 3600 * number, "source": source}
                | {"slate": slate, "click": click}
            )
    return rows


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return dataset_of(tmp_path_factory.mktemp("position") / "log", visits(2))


def fitted(dataset: SlateDataset, **settings: float) -> SlateModel:
    config = ModelConfig(dimensions=2, dynamics="linear", terms=("position",), **settings)
    return fit(dataset, config, QUICK)


def test_factors_of_sources_and_of_returning_users_are_learned(dataset: SlateDataset) -> None:
    model = fitted(dataset)
    factor = model.posterior.mean().position_factor(
        torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1])
    )
    assert factor is not None
    first, searched, again, both = factor.tolist()
    assert again / first == pytest.approx(RETURNING, abs=0.2)
    assert searched / first == pytest.approx(SEARCH, abs=0.5)
    assert both / searched == pytest.approx(again / first)
    same_for_all = fitted(dataset, sigma_position_factor=1e-3)
    found, without = (
        evaluate(ModelRecommender(one), dataset)["log_likelihood"].value
        for one in (model, same_for_all)
    )
    assert found > without + 0.01


def test_slates_are_counted_from_a_users_first_and_once_however_often_clicked() -> None:
    log = random_log(4)
    owner = torch.repeat_interleave(log.user_offsets.diff())
    firsts = [first_of_showing(log, n) for n in range(len(log.clicks))]
    wanted = [
        len({f for f, o in zip(firsts, owner.tolist(), strict=True) if o == own and f < first})
        for first, own in zip(firsts, owner.tolist(), strict=True)
    ]
    assert max(wanted) > 2
    further = np.arange(len(firsts), dtype=np.int32) - np.array(firsts, np.int32)
    several = SeveralClicks.of(further, log.clicks.numpy(), log.slate_offsets.numpy())
    assert slates_before(replace(log, several=several)).tolist() == wanted
