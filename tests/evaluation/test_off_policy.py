"""On a simulated marketplace, where the click rate of an arm that did not run is known."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.evaluation.arms import ArmTotals
from slatewise.evaluation.off_policy import (
    OffPolicyEstimate,
    doubly_robust,
    ips,
    per_position,
    self_normalised,
)
from slatewise.evaluation.slate_probability import epsilon_mix_probability
from slatewise.slates import EpsilonMix, Greedy, InSlateThompson
from tests.evaluation.off_policy_world import ITEMS, Doubles, Ints, K, one_of, world

pytestmark = pytest.mark.xdist_group("off policy")  # what they share is slow to make

SEEDS, EPSILON = 60, 0.5
POPULATION, ASKED, EACH = 2_500, 500, 2


@cache
def greedy() -> Ints:
    return world(POPULATION).slates(Greedy(), 0)


@cache
def logged(seed: int) -> tuple[Ints, Ints, Doubles]:
    """Slates of an ε-mix to some users, each several: who [N], slates [N, k], clicks [N, k]."""
    rng, known = np.random.default_rng([seed, 7]), world(POPULATION)
    who = np.repeat(rng.choice(POPULATION, ASKED, replace=False), EACH)
    slates = known.slates(EpsilonMix(epsilon=EPSILON), 1_000_000 * (seed + 1), who)
    return who, slates, known.clicked(who, slates, rng)


def weights(who: Ints, slates: Ints, epsilon: float) -> Doubles:
    """π(slate) / μ(slate), with π the greedy strategy: [N]."""
    own = greedy()[who]
    found = np.zeros(len(who))
    for row in np.flatnonzero((own == slates).all(axis=1)):
        found[row] = 1 / epsilon_mix_probability(
            slates[row].tolist(), own[row].tolist(), ITEMS, epsilon
        )
    return found


def estimate_ips(seed: int, epsilon: float = EPSILON) -> OffPolicyEstimate:
    who, slates, clicks = logged(seed)
    return ips(who, clicks.sum(axis=1), weights(who, slates, epsilon))


def estimate_self_normalised(seed: int) -> OffPolicyEstimate:
    who, slates, clicks = logged(seed)
    return self_normalised(who, clicks.sum(axis=1), weights(who, slates, EPSILON))


def estimate_doubly_robust(seed: int) -> OffPolicyEstimate:
    """With a model that promises far too little, and everybody the same in part."""
    who, slates, clicks = logged(seed)
    known = world(POPULATION)
    predicted = 0.1 + 0.5 * known.probability(slates, who)
    expected = 0.1 + 0.5 * known.probability(greedy()[who], who)
    of = weights(who, slates, EPSILON)
    return doubly_robust(who, clicks.sum(axis=1), of, predicted, expected)


def truth() -> float:
    return float(world(POPULATION).probability(greedy()).mean())


@pytest.mark.parametrize(
    "estimate", [estimate_ips, estimate_self_normalised, estimate_doubly_robust]
)
def test_an_arm_that_did_not_run_is_estimated_as_well_as_the_interval_says(
    estimate: Callable[[int], OffPolicyEstimate],
) -> None:
    found = [estimate(seed).rate for seed in range(SEEDS)]
    values = np.array([rate.value for rate in found])
    error = values.std() / math.sqrt(SEEDS)
    assert abs(values.mean() - truth()) < 3 * error
    # What ran did worse by far: whoever just counts clicks is wrong.
    assert (
        np.mean([logged(seed)[2].sum() / (ASKED * EACH) for seed in range(SEEDS)]) < truth() - 0.04
    )
    covered = np.mean([not rate.excludes(truth()) for rate in found])
    assert covered >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / SEEDS)
    # Neither are they wide for nothing.
    assert np.mean([rate.high - rate.low for rate in found]) < 6 * values.std()


def test_a_model_that_knows_something_makes_the_doubly_robust_estimate_the_sharper_one() -> None:
    plain = np.std([estimate_ips(seed).rate.value for seed in range(SEEDS)])
    assert np.std([estimate_doubly_robust(seed).rate.value for seed in range(SEEDS)]) < 0.8 * plain


@pytest.mark.parametrize(
    ("epsilon", "word"), [(0.3, "too unlikely"), (0.7, "propensities are not")]
)
def test_wrong_propensities_are_found_out(epsilon: float, word: str) -> None:
    found = estimate_ips(0, epsilon)
    assert found.problem is not None
    assert word in found.problem
    assert math.isnan(found.rate.value)


DRAWS, PLACED = 200, 500


@cache
def pool() -> Ints:
    """Slates of in-slate Thompson, [draws, U, k]; the log shows each user one of hers by lot.

    So the propensities of the log are exact: shares of the draws.
    """
    strategy = InSlateThompson(draws=2)
    return np.stack([world(PLACED).slates(strategy, 10_000 * draw) for draw in range(DRAWS)])


def placed(seed: int) -> tuple[Ints, Ints, Doubles]:
    """Who was shown what, and π / μ in each place, π being greedy: [N], [N, k], [N, k]."""
    rng = np.random.default_rng([seed, 8])
    who = np.tile(np.arange(PLACED), 4)
    slates = pool()[rng.integers(DRAWS, size=len(who)), who]
    best = world(PLACED).slates(Greedy(), 0)
    likely = (pool() == best).mean(axis=0)  # [U, k]
    return who, slates, np.where(slates == best[who], 1 / np.maximum(likely, 1e-9)[who], 0.0)


def alone(who: Ints, slates: Ints) -> Doubles:
    """P(click) of each place in a world where neighbours do not matter: [N, k]."""
    known = world(PLACED)
    attraction = np.exp(known.market.truth.utility(known.users.state[who], slates))
    return np.asarray(0.25 * 0.9 ** np.arange(K) * attraction)


def test_places_are_judged_one_by_one_where_neighbours_do_not_matter() -> None:
    best = world(PLACED).slates(Greedy(), 0)
    everybody = np.arange(PLACED)
    wanted = alone(everybody, best).sum(axis=1).mean()
    rates, logging = [], []
    for seed in range(SEEDS):
        who, slates, of = placed(seed)
        clicks = one_of(alone(who, slates), np.random.default_rng([seed, 9]))
        rates.append(per_position(who, clicks, of).rate)
        logging.append(clicks.sum(axis=1).mean())
    values = np.array([rate.value for rate in rates])
    assert abs(values.mean() - wanted) < 3 * values.std() / math.sqrt(SEEDS)
    assert np.mean(logging) < wanted - 6 * np.std(logging) / math.sqrt(SEEDS)
    covered = np.mean([not rate.excludes(wanted) for rate in rates])
    assert covered >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / SEEDS)


def test_propensities_of_other_users_are_found_out_in_every_place() -> None:
    who, slates, of = placed(0)
    best = world(PLACED).slates(Greedy(), 0)
    others = np.roll((pool() == best).mean(axis=0), 1, axis=0)[who]  # [N, k]
    clicks = one_of(alone(who, slates), np.random.default_rng(0))
    found = per_position(who, clicks, np.where(of > 0, 1 / np.maximum(others, 1e-9), 0.0))
    assert found.problem is not None
    assert "propensities are not" in found.problem


def test_places_are_judged_nearly_right_where_items_of_a_slate_compete() -> None:
    wanted = world(PLACED).probability(world(PLACED).slates(Greedy(), 0)).mean()
    values = []
    for seed in range(SEEDS):
        who, slates, of = placed(seed)
        clicks = world(PLACED).clicked(who, slates, np.random.default_rng([seed, 10]))
        values.append(per_position(who, clicks, of).rate.value)
    # A good item takes clicks from its neighbours, and in a slate of good ones there are more such.
    assert abs(np.mean(values) / wanted - 1) < 0.1


def test_the_probability_of_a_slate_of_thompson_is_not_the_product_over_its_places() -> None:
    best = world(PLACED).slates(Greedy(), 0)
    hits = pool() == best
    together = hits.all(axis=2).mean()
    product = hits.mean(axis=0).prod(axis=1).mean()
    assert together > 1.2 * product


def test_the_probabilities_of_all_slates_of_an_epsilon_mix_are_those_of_its_slates() -> None:
    known, draws = world(POPULATION), 20_000
    everybody = np.zeros(draws, dtype=np.int64)
    own = known.slates(Greedy(), 0, everybody[:1])[0]
    shown = known.slates(EpsilonMix(epsilon=0.4), 5, everybody)
    several, counts = np.unique(shown, axis=0, return_counts=True)
    likely = np.array(
        [epsilon_mix_probability(row.tolist(), own.tolist(), ITEMS, 0.4) for row in several]
    )
    often = counts >= 15
    expected = draws * likely[often]
    assert often.sum() > 50
    off = (counts[often] - expected) / np.sqrt(expected)
    assert abs(off).max() < 5
    assert (off**2).mean() == pytest.approx(1, abs=0.5)


def test_the_probabilities_of_an_epsilon_mix_add_up_to_one() -> None:
    own, everything = [2, 0, 3], range(5)
    slates = [(a, b, c) for a in everything for b in everything for c in everything]
    total = sum(
        epsilon_mix_probability(slate, own, 5, 0.6) for slate in slates if len(set(slate)) == 3
    )
    assert total == pytest.approx(1)


def test_a_greedy_log_cannot_tell_about_others() -> None:
    who, slates, clicks = logged(0)
    found = ips(who, clicks.sum(axis=1), (slates == greedy()[who][:, ::-1]).all(axis=1) * 1.0)
    assert found.problem is not None
    assert "the log can tell about 0%" in found.problem
    by_place = per_position(who, clicks, np.zeros_like(clicks))
    assert by_place.problem is not None
    assert math.isnan(by_place.rate.value)


def test_a_log_of_the_target_itself_gives_its_click_rate_with_the_interval_over_users() -> None:
    rng = np.random.default_rng(0)
    users = rng.integers(200, size=1_000)
    clicked = (rng.random(1_000) < 0.2).astype(np.float64)
    ones = np.ones(1_000)
    found = [ips(users, clicked, ones), self_normalised(users, clicked, ones)]
    found.append(doubly_robust(users, clicked, ones, 0.3 * ones, 0.3 * ones))
    in_place = np.zeros((1_000, 2))
    in_place[:, 1] = clicked
    found.append(per_position(users, in_place, np.ones((1_000, 2))))
    clicks = np.bincount(users, clicked, 200).astype(np.int64)
    seen = np.bincount(users, minlength=200)
    arm = ArmTotals(clicks[seen > 0], seen[seen > 0])
    for one in found:
        assert one.rate.value == pytest.approx(arm.click_rate)
        reach = (one.rate.high - one.rate.low) / 2 / math.sqrt(arm.variance)
        assert 1.96 < reach < 2.0


def test_users_and_not_slates_are_what_an_estimate_rests_on() -> None:
    who, slates, clicks = logged(0)
    clicked, of = clicks.sum(axis=1), weights(who, slates, EPSILON)
    once = ips(who, clicked, of)
    twice = ips(np.tile(who, 2), np.tile(clicked, 2), np.tile(of, 2))
    assert twice.rate.low == pytest.approx(once.rate.low)
    assert twice.effective_users == pytest.approx(once.effective_users)


def test_great_weights_are_cut_and_counted_and_a_handful_of_users_is_refused() -> None:
    users, clicked = np.arange(400), np.ones(400)
    few = np.zeros(400)
    few[:20] = 20.0
    found = ips(users, clicked, few)
    assert (found.clipped, found.effective_users) == (0, pytest.approx(20))
    assert found.problem is not None
    assert found.problem.startswith("20 users' worth")
    few[:20] = [30.0] * 10 + [math.inf] * 10
    assert ips(users, clicked, few).clipped == 1
    assert ips(users, clicked, few).support.value == pytest.approx(1)


def test_places_without_an_item_do_not_count() -> None:
    users, clicked = np.arange(400), np.zeros((400, 3))
    clicked[:100, 0] = 1
    of = np.ones((400, 3))
    of[:, 2] = np.nan
    of[50:, 1] = np.nan
    found = per_position(users, clicked, of)
    assert found.problem is None
    assert found.rate.value == pytest.approx(0.25)


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(SlatewiseError, match="no slates"):
        ips(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
