from collections.abc import Callable

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.simulation import Marketplace, Users, named_policy
from slatewise.simulation.arrays import Ints

from .conftest import TRUTHS, Fixed, distinct

Make = Callable[..., Marketplace]


def clones(users: Users, copies: int) -> Users:
    """Everybody `copies` times, side by side."""
    return Users(
        state=users.state.repeat(copies, axis=0),
        group=users.group.repeat(copies),
        recent=users.recent.repeat(copies, axis=0),
        history=users.history.repeat(copies, axis=0),
        steps=users.steps.repeat(copies),
        propensity=users.propensity.repeat(copies),
        seen=users.seen.repeat(copies, axis=0),
    )


@pytest.mark.parametrize("truth", TRUTHS)
def test_exact_probabilities_match_the_clicks_of_the_online_verb(
    market: Make, rng: np.random.Generator, truth: str
) -> None:
    world, copies = market(truth=truth, search_share=0.0), 40_000
    few = world.new_users(4, rng)
    few.recent[:, 0] = [3, 50, 120, 199]
    slates = np.array([rng.permutation(200)[:25] for _ in range(4)])
    slates[0, 2] = 3 if 3 not in slates[0] else slates[0, 2]
    exact = world.click_probability(few, slates)
    met = world.interact(clones(few, copies), Fixed(np.repeat(slates, copies, axis=0)), rng)
    np.testing.assert_allclose(met.click_probability.reshape(4, copies)[:, 0], exact)
    clicked = (met.clicks >= 0).reshape(4, copies).mean(axis=1)
    # Four standard deviations of the Monte Carlo mean, at most 0.01 here.
    assert (np.abs(clicked - exact) < 4 * np.sqrt(exact * (1 - exact) / copies)).all()
    position = (met.slates == met.clicks[:, None]).reshape(4, copies, 25).mean(axis=1)
    expected = sum(
        p * world.choice_probabilities(few, slates, np.full(4, s)).items
        for s, p in enumerate(world.scroll.pmf, start=1)
    )
    spread = np.sqrt(expected * (1 - expected) / copies)
    assert (np.abs(position - expected) < 4.5 * spread + 1e-12).all()


@pytest.mark.parametrize("truth", TRUTHS)
def test_an_interaction_is_consistent_with_itself(
    market: Make, rng: np.random.Generator, truth: str
) -> None:
    world = market(truth=truth, search_share=0.5)
    users = world.new_users(2_000, rng)
    policy = named_policy("more-like-this", world.catalogue)
    for _ in range(4):
        met = world.interact(users, policy, rng)
        rows = np.arange(2_000)
        assert distinct(met.slates)
        seen = np.arange(25) < met.scroll[:, None]
        assert (((met.slates == met.clicks[:, None]) & seen).sum(1) == (met.clicks >= 0)).all()
        assert (users.history[rows, users.steps - 1] == met.clicks).all()
        assert met.searched.mean() == pytest.approx(0.5, abs=0.05)
        p = 1 - met.choice.no_click
        z = ((met.clicks >= 0) - p).sum() / np.sqrt((p * (1 - p)).sum())
        assert abs(z) < 4


def test_only_the_chosen_users_interact(market: Make, rng: np.random.Generator) -> None:
    world = market()
    users = world.new_users(100, rng)
    before = users.state.copy()
    who = np.array([90, 3, 41])
    met = world.interact(users, named_policy("random", world.catalogue), rng, who)
    assert met.who.tolist() == [90, 3, 41]
    np.testing.assert_array_equal(met.state, before[who])
    others = np.setdiff1d(np.arange(100), who)
    np.testing.assert_array_equal(users.state[others], before[others])
    assert (users.state[who] != before[who]).any(axis=1).all()
    assert users.steps[who].tolist() == [1, 1, 1]
    assert users.steps.sum() == 3


def test_nobody_can_interact_too(market: Make, rng: np.random.Generator) -> None:
    world = market()
    users = world.new_users(5, rng)
    met = world.interact(users, named_policy("random", world.catalogue), rng, np.array([], int))
    assert len(met.clicks) == 0


def test_asking_for_probabilities_changes_nobody(market: Make, rng: np.random.Generator) -> None:
    world = market()
    users = world.new_users(20, rng)
    slates = np.tile(np.arange(25), (20, 1))
    first = world.click_probability(users, slates)
    np.testing.assert_array_equal(first, world.click_probability(users, slates))
    some = np.array([4, 2])
    np.testing.assert_allclose(world.click_probability(users, slates[some], some), first[some])
    assert users.steps.sum() == 0


class Spy:
    """Remembers what it was shown, and tries to change it."""

    def __init__(self) -> None:
        self.seen: list[Ints] = []

    def recommend(self, history: Ints, k: int, rng: np.random.Generator) -> Ints:
        self.seen.append(history.copy())
        history[:] = 0
        return np.tile(np.arange(k), (len(history), 1))


@pytest.mark.parametrize("truth", TRUTHS)
def test_the_best_slates_are_of_the_items_that_users_like_best(
    market: Make, rng: np.random.Generator, truth: str
) -> None:
    world = market(
        truth=truth, max_slate=3, mean_scroll=2.0, effects={"quality_sd": 0.5, "position_bias": 0.7}
    )
    users, who = world.new_users(5, rng), np.arange(5)
    items = rng.permutation(200)[:7]
    best = world.best_slates(users, who, items)
    chances = world.click_probability(users, best, who)
    for _ in range(40):
        others = np.stack([rng.permutation(items)[:3] for _ in range(5)])
        assert (world.click_probability(users, others, who) <= chances + 1e-9).all()


def test_a_policy_sees_the_observed_clicks_and_nothing_else(
    market: Make, rng: np.random.Generator
) -> None:
    world, spy = market(search_share=0.3), Spy()
    users = world.new_users(60, rng)
    observed = np.full((60, 6), -1)
    for step in range(6):
        met = world.interact(users, spy, rng)
        np.testing.assert_array_equal(spy.seen[-1], observed[~met.searched, :step])
        observed[:, step] = met.clicks
    assert (observed >= 0).any()


def test_a_search_never_asks_the_policy(market: Make, rng: np.random.Generator) -> None:
    world, spy = market(search_share=1.0), Spy()
    met = world.interact(world.new_users(20, rng), spy, rng)
    assert met.searched.all()
    assert not spy.seen


@pytest.mark.parametrize(
    ("slates", "problem"),
    [
        (np.tile(np.arange(24), (3, 1)), "shape"),
        (np.tile(np.arange(25), (2, 1)), "shape"),
        (np.tile(np.arange(25.0), (3, 1)), "float64"),
        (np.tile(np.arange(-1, 24), (3, 1)), "outside"),
        (np.tile(np.arange(176, 201), (3, 1)), "outside"),
        (np.tile([7, *range(24)], (3, 1)), "twice"),
    ],
)
def test_impossible_slates_are_refused(
    market: Make, rng: np.random.Generator, slates: np.ndarray, problem: str
) -> None:
    world = market(search_share=0.0)
    users = world.new_users(3, rng)
    with pytest.raises(SlatewiseError, match=problem):
        world.click_probability(users, slates)
    with pytest.raises(SlatewiseError, match=problem):
        world.interact(users, Fixed(slates), rng)
    assert users.steps.sum() == 0


def test_a_user_cannot_meet_two_slates_at_once(market: Make, rng: np.random.Generator) -> None:
    world = market()
    policy = named_policy("random", world.catalogue)
    with pytest.raises(SlatewiseError, match="once"):
        world.interact(world.new_users(3, rng), policy, rng, np.array([1, 1]))


def test_the_companion_is_worth_knowing(market: Make, rng: np.random.Generator) -> None:
    """A policy that knows companions beats one that knows only the last click's group."""
    world = market()
    users = world.new_users(2_000, rng)
    policy = named_policy("random", world.catalogue)
    for _ in range(6):
        world.interact(users, policy, rng)
    group = world.catalogue.group[users.recent[:, 0]]
    vectors, means = world.space.vectors, world.space.means

    def nearest(centres: np.ndarray) -> Ints:
        return np.argsort(np.linalg.norm(vectors - centres[:, None], axis=2), axis=1)[:, :25]

    same, companion = nearest(means[group]), nearest(means[world.space.companion[group]])
    both = np.stack([same, companion], axis=2).reshape(len(same), -1)
    mixed = world.catalogue.complete(both, 25, rng)
    gain = world.click_probability(users, mixed) - world.click_probability(users, same)
    gain = gain[users.recent[:, 0] >= 0]
    assert gain.mean() > 4 * gain.std() / len(gain) ** 0.5
