"""Before any training, a service has sensible slates."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from slatewise.model.config import ModelConfig
from slatewise.service.serving import Request, Service
from slatewise.service.serving.prior import prior_items, prior_version
from slatewise.service.settings import ServiceConfig
from slatewise.service.store.records import ItemState
from tests.service.serving.world import a_service, put, visit

ITEMS = [f"i{number}" for number in range(12)]


def day_zero(directory: Path, strategy: str = "in-slate-thompson", **model: object) -> Service:
    values = {"arms": {"main": {"strategy": strategy}}, "models": {"main": {"model": model}}}
    return a_service(directory, None, ServiceConfig.build(values, "a test"))


@pytest.mark.parametrize("strategy", ["thompson", "in-slate-thompson"])
@pytest.mark.parametrize("user", ["nobody", "clicker"])
def test_all_items_are_equally_likely(tmp_path: Path, strategy: str, user: str) -> None:
    service = day_zero(tmp_path, strategy)
    put(service, *ITEMS[:6], group="red")
    put(service, *ITEMS[6:], group="blue")
    put(service, "clicked", group="blue", state="hidden")
    visit(service, "clicker", ["clicked", "i0"], ["clicked"])
    slates = [service.recommend(Request(user, k=3, seed=seed))[0].items for seed in range(1_500)]
    counts = Counter(item for slate in slates for item in slate)
    expected = len(slates) * 3 / 12
    chi_squared = sum((counts[item] - expected) ** 2 / expected for item in ITEMS)
    # Items of a slate exclude each other, so that this is smaller than χ² of 11 degrees: 36 is
    # exceeded less than once in 5,000 times.
    assert chi_squared < 36
    first = Counter(slate[0] for slate in slates)
    assert max(first.values()) < 125 + 5 * np.sqrt(125)


@pytest.mark.parametrize("strategy", ["greedy", "posterior-mean", "epsilon-mix"])
def test_every_strategy_has_a_slate(tmp_path: Path, strategy: str) -> None:
    service = day_zero(tmp_path, strategy)
    put(service, *ITEMS)
    assert len(set(service.recommend(Request("ann", k=5))[0].items)) == 5


@pytest.mark.parametrize(
    "model",
    [
        {"prior": "flat"},
        {"dynamics": "linear"},
        {"terms": ["bias", "history", "popularity", "propensity", "position"]},
        {"evidence": ["search"]},
        {"initial_state": "amortised"},
    ],
)
def test_every_model_has_a_day_zero(tmp_path: Path, model: dict[str, object]) -> None:
    service = day_zero(tmp_path, **model)
    put(service, *ITEMS)
    visit(service, "ann", ["i1", "i2"], ["i2"])
    record, slate, notes = service.recommend(Request("ann", k=20))
    assert set(record.items) == set(ITEMS) - {"i2"}
    assert (slate.uncertainty > 0).all()
    waiting = {"terms": "history, popularity, propensity, position", "evidence": "evidence"}
    names = [waiting[setting] for setting in model if setting in waiting]
    assert notes == [f"before the first training without {name}" for name in names]
    assert service.ready() == notes


def test_an_empty_store_has_an_empty_slate(tmp_path: Path) -> None:
    record, slate, notes = day_zero(tmp_path).recommend(Request("ann", clicks=("x",)))
    assert record.items == ()
    assert len(slate) == 0
    assert slate.unknown == ["x"]
    assert notes == []


def test_groups_that_come_later_are_offered_and_capped(tmp_path: Path) -> None:
    service = day_zero(tmp_path)
    put(service, *ITEMS, group="old")
    service.recommend(Request(None))
    put(service, "n1", "n2", "n3", group="new")
    slate = service.recommend(Request(None, k=15, groups={"new": 2, "old": 3}))[1]
    assert sorted(slate.groups) == ["new"] * 2 + ["old"] * 3


def test_versions_before_training_are_told_apart() -> None:
    assert prior_version(ModelConfig()) == prior_version(ModelConfig(terms=("history",)))
    assert prior_version(ModelConfig()) != prior_version(ModelConfig(dimensions=3))


def test_the_spread_of_items_is_that_of_the_prior() -> None:
    config = ModelConfig(terms=("bias",), kappa_mu=1.5, kappa_sigma=0.8, kappa_bias=0.4)
    rng = np.random.default_rng(0)
    groups = rng.normal(0, 1.5, 200_000)
    spreads = np.sqrt(rng.normal(0, 0.8, 200_000) ** 2 + config.scale_floor**2)
    _, scales, _, unsure = prior_items(config, 2)
    assert scales[1, 3] == pytest.approx(rng.normal(groups, spreads).std(), rel=0.01)
    middle, spread = rng.normal(0, 0.4, 200_000), np.abs(rng.normal(0, 0.4, 200_000))
    drawn = rng.normal(middle, np.hypot(spread, config.scale_floor))
    assert unsure[0] == pytest.approx(drawn.std(), rel=0.01)
    assert prior_items(ModelConfig(), 1)[3] == 0


def test_hidden_items_are_not_shown_on_day_zero(tmp_path: Path) -> None:
    service = day_zero(tmp_path)
    service.store.put_items([("i1", "g", ItemState.HIDDEN), ("i2", "g", ItemState.SHOWN)])
    service.changed_items()
    assert service.recommend(Request(None))[0].items == ("i2",)
