"""A term says how it ranks, and defines it once; what is missing is an error in words."""

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.features.user_history import UserHistory
from slatewise.model.config import ModelConfig
from slatewise.model.terms import FeatureTerm, FittedTerms
from slatewise.model.terms.term import Ranks
from tests.features.logs import random_log
from tests.model.terms.logs import dataset_of, rows_of

CONFIG = ModelConfig(terms=("popularity", "history"), half_lives=(2.0, 12.0))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return dataset_of(tmp_path_factory.mktemp("terms") / "log", rows_of(0))


@pytest.fixture(scope="module")
def terms(dataset: SlateDataset) -> FittedTerms:
    return FittedTerms.fit(CONFIG, dataset)


@pytest.mark.parametrize("name", CONFIG.terms)
def test_a_fast_pass_over_a_log_is_what_rankings_compute(
    name: str, dataset: SlateDataset, terms: FittedTerms
) -> None:
    term, log = terms.by_name[name], dataset.interactions()
    fast, slow = (kind.describe_in(term, dataset) for kind in (type(term), FeatureTerm))
    torch.testing.assert_close(fast(log), slow(log), rtol=1e-6, atol=0)
    assert (fast(log) != 0).any()


def test_clicks_on_one_slate_share_its_past_in_a_replay(terms: FittedTerms) -> None:
    term, log = terms.by_name["history"], random_log(3)
    fast, slow = (kind.describe_in(term, None) for kind in (type(term), FeatureTerm))
    torch.testing.assert_close(fast(log), slow(log), rtol=1e-6, atol=0)
    nobody = log.of_users(torch.empty(0, dtype=torch.int64))
    assert slow(nobody).shape == (0, 3)


def test_counting_a_log_event_by_event_gives_its_state(
    dataset: SlateDataset, terms: FittedTerms
) -> None:
    term = terms.by_name["popularity"]
    at = int(dataset.times.max()) + 60_000_000
    whole, counted = (kind.state_after(term, dataset) for kind in (type(term), FeatureTerm))
    np.testing.assert_allclose(counted.features(at), whole.features(at), rtol=1e-6)
    assert counted.newest == whole.newest > 0


def test_features_looked_up_are_those_of_the_state_at_that_time(
    dataset: SlateDataset, terms: FittedTerms
) -> None:
    term = terms.by_name["popularity"]
    at = int(dataset.times.max()) + 60_000_000
    items = np.arange(dataset.num_items)
    found = term.at_times(dataset)(items, np.full(len(items), at))
    np.testing.assert_allclose(found, term.state_after(dataset).features(at), rtol=1e-5)


class Complete:
    """All that a term may define."""

    @classmethod
    def columns(cls, config: ModelConfig) -> tuple[str, ...]:
        return ("x",)

    @classmethod
    def fit(cls, config: ModelConfig, dataset: SlateDataset) -> Any:
        return cls()

    def describe_in(self, log: SlateDataset | None) -> Any: ...

    def met(self, history: UserHistory, items: Any = None) -> Any: ...

    def item_state(self, num_items: int) -> Any: ...

    def at_times(self, log: SlateDataset | None) -> Any: ...

    @property
    def refresh(self) -> float:
        return 60.0


NEEDED: dict[Ranks, list[str]] = {
    "all items": ["item_state", "at_times", "refresh"],
    "items met": ["met"],
    "never": ["describe_in"],
}


@pytest.mark.parametrize("ranks", NEEDED)
def test_a_term_without_a_verb_that_its_ranking_needs_is_refused_by_name(ranks: Ranks) -> None:
    verbs = {name: value for name, value in vars(Complete).items() if not name.startswith("__")}
    said = {
        "__module__": __name__,
        "__annotations__": {"acts_on": ClassVar[str], "ranks": ClassVar[str]},
        "acts_on": "items",
        "ranks": ranks,
    }
    type("Whole", (FeatureTerm,), verbs | said)
    for missing in NEEDED[ranks]:
        rest = {name: value for name, value in verbs.items() if name != missing}
        with pytest.raises(SlatewiseError, match=f"no `{missing}`"):
            type("Half", (FeatureTerm,), rest | said)


def test_a_term_has_to_say_how_it_ranks() -> None:
    with pytest.raises(SlatewiseError, match="does not define `ranks`"):

        class Silent(Complete, FeatureTerm):  # type: ignore[misc]
            acts_on: ClassVar[Literal["items", "no click"]] = "items"

    with pytest.raises(SlatewiseError, match="cannot rank items"):

        class Odd(Complete, FeatureTerm):  # type: ignore[misc]
            acts_on: ClassVar[Literal["items", "no click"]] = "no click"
            ranks: ClassVar[Ranks] = "items met"


def test_popularity_without_a_log_is_refused(tmp_path: Path, terms: FittedTerms) -> None:
    with pytest.raises(SlatewiseError, match="not known without a log"):
        terms.by_name["popularity"].at_times(None)
