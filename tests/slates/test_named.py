"""Every strategy, by contract and against what it is meant to do."""

import numpy as np
import numpy.typing as npt
import pytest

from slatewise.errors import SlatewiseError
from slatewise.features import UserHistory
from slatewise.model.fitted import SlateModel
from slatewise.ranking import Filter, ItemTable
from slatewise.slates import (
    STRATEGIES,
    EpsilonMix,
    ExactRanker,
    Greedy,
    InSlateThompson,
    PosteriorMean,
    Ranker,
    Strategy,
    Thompson,
    Users,
    named_strategy,
)
from slatewise.slates.interleaving import interleave
from slatewise.slates.strategies import explores, is_deterministic, mixture_of
from slatewise.slates.tables import columns
from tests.slates.conftest import ITEMS, a_model

NOBODY = np.array([], dtype=np.int64)


@pytest.fixture(scope="module")
def ranker(model: SlateModel) -> ExactRanker:
    return ExactRanker(model.posterior, ItemTable.create(*columns(model)))


@pytest.mark.parametrize("name", STRATEGIES)
class TestEvery:
    def test_slates_are_of_distinct_items_that_may_be_shown(
        self, name: str, ranker: ExactRanker
    ) -> None:
        clicks = [np.array([2, 9]), NOBODY]
        users = Users.of_clicks(clicks, 0, show_clicked=False)
        slates = named_strategy(name).slates(ranker, users, 10)
        assert slates.shape == (2, 10)
        for slate, history in zip(slates.tolist(), clicks, strict=True):
            assert len(set(slate)) == 10
            assert set(slate) <= set(range(ITEMS)) - set(history.tolist())

    def test_the_same_seed_gives_the_same_slate(self, name: str, ranker: ExactRanker) -> None:
        users = Users.of_clicks([np.array([2, 9])], 4, show_clicked=True)
        first, again = (named_strategy(name).slates(ranker, users, 10) for _ in range(2))
        assert first.tolist() == again.tolist()

    def test_what_is_random_varies_with_the_seed(self, name: str, ranker: ExactRanker) -> None:
        slates = [
            named_strategy(name).slates(
                ranker, Users.of_clicks([np.array([2, 9])], seed, show_clicked=True), 10
            )
            for seed in range(8)
        ]
        different = {tuple(slate[0].tolist()) for slate in slates}
        assert len(different) == 1 if name == "greedy" else len(different) > 1

    def test_group_caps_hold(self, name: str, ranker: ExactRanker) -> None:
        caps = np.array([1, 0, -1])
        users = Users([UserHistory.of_clicks(np.array([2]))], [Filter(caps=caps)], [1])
        slate = named_strategy(name).slates(ranker, users, 12)[0]
        assert (slate >= 0).all()
        assert len(set(slate.tolist())) == 12
        red, green, _ = np.bincount(slate % 3, minlength=3)
        assert red <= 1
        assert green == 0

    def test_a_catalogue_that_is_too_small_is_shown_whole(
        self, name: str, ranker: ExactRanker
    ) -> None:
        users = Users([UserHistory.of_clicks(NOBODY)], [Filter(allow=[5, 7, 8])], [1])
        slate = named_strategy(name).slates(ranker, users, 5)[0]
        assert sorted(slate.tolist()) == [-1, -1, 5, 7, 8]


def test_one_draw_in_the_slate_is_single_thompson_sampling(ranker: ExactRanker) -> None:
    users = Users.of_clicks([np.array([2, 9])], 4, show_clicked=True)
    single = named_strategy("thompson").slates(ranker, users, 10)
    assert InSlateThompson(draws=1).slates(ranker, users, 10).tolist() == single.tolist()


def test_in_slate_draws_are_interleaved_by_rank(ranker: ExactRanker) -> None:
    users = Users.of_clicks([np.array([2, 9])], 4, show_clicked=True)
    rankings = ranker.by_draws(users, 10, 6)
    slate = InSlateThompson(draws=6).slates(ranker, users, 10)
    assert slate.tolist() == interleave(rankings, 10).tolist()
    assert slate[0, 0] == rankings[0, 0, 0]


def test_a_sure_posterior_makes_all_thompson_slates_greedy() -> None:
    model = a_model(scale=1e-6)
    for part in model.posterior.shared.values():
        part.raw.fill_(-30.0)
    ranker = ExactRanker(model.posterior, ItemTable.create(*columns(model)))
    users = Users.of_clicks([np.array([2, 9]), NOBODY], 4, show_clicked=True)
    greedy = Greedy().slates(ranker, users, 10).tolist()
    for name in ("thompson", "in-slate-thompson", "posterior-mean"):
        assert named_strategy(name).slates(ranker, users, 10).tolist() == greedy


def test_epsilon_is_the_share_of_places_left_to_chance(ranker: ExactRanker) -> None:
    clicks = [np.array([2, 9])] * 2_000
    users = Users.of_clicks(clicks, 0, show_clicked=True)
    greedy = Greedy().slates(ranker, users, 5)
    mixed = EpsilonMix(epsilon=0.3).slates(ranker, users, 5)
    # The first place is greedy's unless chance took it, and chance may take the same item.
    share = (mixed[:, 0] != greedy[:, 0]).mean()
    assert share == pytest.approx(0.3 * (1 - 1 / ITEMS), abs=5 * np.sqrt(0.21 / 2_000))
    assert EpsilonMix(epsilon=0.0).slates(ranker, users, 5).tolist() == greedy.tolist()


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(SlatewiseError, match="no strategy 'ucb'") as caught:
        named_strategy("ucb")
    assert all(name in caught.value.remedy for name in STRATEGIES)


class Outside:
    """A strategy as short as it can be, which says nothing of chance."""

    name = "outside"

    def slates(self, ranker: Ranker, users: Users, k: int) -> npt.NDArray[np.int64]:
        return ranker.by_mean(users, k)


@pytest.mark.parametrize(
    ("strategy", "deterministic", "exploring"),
    [
        (Greedy(), True, False),
        (Thompson(), False, True),
        (InSlateThompson(), False, True),
        (PosteriorMean(), False, False),
        (EpsilonMix(), False, False),
        (EpsilonMix(rest="thompson"), False, True),
        (Outside(), False, False),
    ],
)
def test_strategies_say_what_they_leave_to_chance(
    strategy: Strategy, *, deterministic: bool, exploring: bool
) -> None:
    assert is_deterministic(strategy) == deterministic
    assert explores(strategy) == exploring
    assert (mixture_of(strategy) is not None) == isinstance(strategy, EpsilonMix)
