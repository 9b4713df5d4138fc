"""The exact ranker, against plain rankings of all items and a slow transcription."""

from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch

from slatewise.features import UserHistory
from slatewise.model.dynamics.gru import GruWeights
from slatewise.model.fitted import SlateModel
from slatewise.ranking import Filter, ItemTable
from slatewise.slates import ExactRanker, Users
from slatewise.slates.tables import columns
from slatewise.slates.users import Ints
from tests.slates.conftest import ITEMS, a_model
from tests.slates.dense import DenseRanker

CLICKS = [np.array([3, 17, 3]), np.array([], dtype=np.int64), np.array([40])]


def ranker_of(model: SlateModel) -> ExactRanker:
    return ExactRanker(model.posterior, ItemTable.create(*columns(model)))


def of_click(item: int) -> UserHistory:
    return UserHistory.of_clicks(np.array([item]))


def users_of(clicks: list[Ints], *, show: bool = True, seed: int = 0) -> Users:
    return Users.of_clicks(clicks, seed, show_clicked=show)


def profile_by_hand(
    clicks: Ints, vectors: npt.NDArray[np.float64], weights: GruWeights, state: torch.Tensor
) -> npt.NDArray[np.float64]:
    """The equations of the GRU, one click after the other, in plain numpy."""
    from_item, from_state, output = (part.numpy().astype(float) for part in weights)
    hidden = state.numpy().astype(float)
    size = len(hidden)
    for item in clicks:
        gates, own = from_item @ vectors[item], from_state @ hidden
        reset, update = (
            1 / (1 + np.exp(-(gates[part] + own[part])))
            for part in (slice(size), slice(size, 2 * size))
        )
        new = np.tanh(gates[2 * size :] + reset * own[2 * size :])
        hidden = (1 - update) * new + update * hidden
    return np.asarray(output @ hidden)


def test_the_mean_ranks_by_distance_to_the_profile(model: SlateModel) -> None:
    slates = ranker_of(model).by_mean(users_of(CLICKS), 10)
    mean = model.posterior.mean()
    assert isinstance(mean.weights, GruWeights)
    vectors = mean.items.numpy().astype(float)
    for clicks, slate in zip(CLICKS, slates, strict=True):
        profile = profile_by_hand(clicks, vectors, mean.weights, mean.initial_state)
        expected = np.argsort(np.linalg.norm(vectors - profile, axis=1))[:10]
        assert slate.tolist() == expected.tolist()


@pytest.mark.parametrize("dynamics", ["gru", "linear"])
@pytest.mark.parametrize("initial", ["causal", "amortised"])
def test_draws_have_the_distribution_of_plain_rankings(
    dynamics: Literal["gru", "linear"], initial: Literal["causal", "amortised"]
) -> None:
    model = a_model(dynamics, initial=initial, scale=0.3)
    draws, users = 2_500, users_of([np.array([3, 17, 3])])
    shares = []
    for ranker in (DenseRanker(model.posterior), ranker_of(model)):
        rankings = ranker.by_draws(users, 3, draws)[0]
        shares.append([np.bincount(row, minlength=ITEMS) / draws for row in rankings.T])
    gap = np.abs(np.array(shares[0]) - np.array(shares[1]))  # [3, I]
    # Of 180 comparisons, none is off by five standard errors of a difference.
    assert (gap < 5 * np.sqrt(2 * 0.25 / draws)).all()
    assert (np.array(shares).max(axis=2) < 0.9).all()  # there is something to compare


def test_every_draw_resamples_what_moves_users_and_the_items() -> None:
    users = users_of([np.array([3, 17, 3])])
    for frozen in ("items", "shared"):
        model = a_model(scale=0.3)
        posterior = model.posterior
        with torch.no_grad():
            if frozen == "items":
                posterior.items.raw.fill_(-30.0)
            for name, part in posterior.shared.items():
                if name in ("from_item", "from_state", "output", "initial_state"):
                    part.raw.fill_(-30.0 if frozen == "shared" else 0.0)
        rankings = ranker_of(model).by_draws(users, 5, 30)[0]
        assert len({tuple(row) for row in rankings.tolist()}) > 5, frozen


def test_a_clicked_item_has_one_vector_in_a_draw() -> None:
    # A user who stays where her last click was has that item first in every draw, however
    # uncertain it is: the vector that moved her is the vector that is ranked.
    model = a_model("linear", scale=1.0)
    with torch.no_grad():
        model.posterior.shared["drift_logit"].mean.fill_(-30.0)
    rankings = ranker_of(model).by_draws(users_of([np.array([5])]), 1, 50)
    assert (rankings == 5).all()


def test_expected_relevance_is_that_of_many_draws() -> None:
    model = a_model(scale=0.5)
    model.posterior.items.raw[::2] = -3.0  # uncertain and sure items in turn
    clicks = np.array([3, 17])
    users = users_of([clicks], show=False)
    slate = ranker_of(model).by_expectation(users, 5, draws=1_000)[0]
    exact = ExactRanker(model.posterior, ItemTable.create(*columns(model)))
    drawn = exact.draw_profiles(users.histories[0], 4_000, seed=11)
    rng = np.random.default_rng(12)
    means, scales, _, _ = columns(model)
    relevance = np.zeros(ITEMS)
    for profile in drawn.profiles:
        vectors = means + scales * rng.standard_normal(means.shape)
        relevance += np.exp(-np.linalg.norm(profile - vectors, axis=1))
    relevance[clicks] = 0
    best = np.sort(relevance)[::-1]
    # Monte Carlo leaves about 1 % of error: the items taken are as good as the best, within that.
    assert (relevance[slate] > 0.97 * best[:5]).all()


def test_filters_hold_in_every_ranking(model: SlateModel) -> None:
    ranker = ranker_of(model)
    allow = np.arange(0, ITEMS, 2)
    users = Users([of_click(4)] * 2, [Filter(exclude=[4, 6], allow=allow)] * 2, [0, 1])
    for slates in (
        ranker.by_mean(users, 50),
        ranker.by_draws(users, 50, 3)[:, 0],
        ranker.by_expectation(users, 50, 2),
        ranker.at_random(users, 50),
    ):
        shown = slates[slates >= 0]
        assert set(shown.tolist()) == set(allow.tolist()) - {4, 6}
        assert (slates[:, 28:] == -1).all()


def test_chance_gives_every_item_its_turn(model: SlateModel) -> None:
    ranker = ranker_of(model)
    clicks = [np.array([], dtype=np.int64)] * 3_000
    shown = ranker.at_random(users_of(clicks, seed=5), 2)
    counts = np.bincount(shown.ravel(), minlength=ITEMS)
    assert (np.abs(counts - 100) < 50).all()  # five standard deviations
    assert (shown[:, 0] != shown[:, 1]).all()


def test_users_are_treated_apart(model: SlateModel) -> None:
    ranker = ranker_of(model)
    together = ranker.by_draws(users_of(CLICKS, seed=3), 5, 4)
    for row, clicks in enumerate(CLICKS):
        alone = ranker.by_draws(users_of([clicks], seed=3 + row), 5, 4)[0]
        assert together[row].tolist() == alone.tolist()
