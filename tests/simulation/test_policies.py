from collections.abc import Callable

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.simulation import Marketplace, named_policy
from slatewise.simulation.policies import last_clicks

from .conftest import distinct

Make = Callable[..., Marketplace]
NAMES = ("random", "promoted", "more-like-this")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [0, 1, 6])
@pytest.mark.parametrize("k", [1, 25, 200])
def test_every_policy_returns_distinct_valid_items(
    market: Make, rng: np.random.Generator, name: str, steps: int, k: int
) -> None:
    policy = named_policy(name, market().catalogue)
    slates = policy.recommend(rng.integers(-1, 200, size=(30, steps)), k, rng)
    assert slates.shape == (30, k)
    assert distinct(slates)
    assert slates.min() >= 0
    assert slates.max() < 200


def test_promoted_is_the_same_for_everybody_and_the_most_exposed(
    market: Make, rng: np.random.Generator
) -> None:
    catalogue = market().catalogue
    slates = named_policy("promoted", catalogue).recommend(np.array([[1], [2]]), 25, rng)
    assert (slates[0] == slates[1]).all()
    rest = np.setdiff1d(np.arange(200), slates[0])
    assert catalogue.exposure[slates[0]].min() >= catalogue.exposure[rest].max()


def test_more_like_this_shows_the_group_of_the_last_click(
    market: Make, rng: np.random.Generator
) -> None:
    catalogue = market().catalogue
    history = np.tile([3, 50, -1], (200, 1))
    history[100:] = -1
    slates = named_policy("more-like-this", catalogue).recommend(history, 5, rng)
    share = (catalogue.group[slates] == catalogue.group[50]).mean(axis=1)
    size = (catalogue.group == catalogue.group[50]).sum()
    assert share[:100].mean() > min(0.9, size / 5 * 0.9)
    assert share[100:].mean() < 0.5


def test_random_follows_exposure(market: Make, rng: np.random.Generator) -> None:
    catalogue = market().catalogue
    slates = named_policy("random", catalogue).recommend(np.zeros((20_000, 0), int), 1, rng)
    share = np.bincount(slates.ravel(), minlength=200) / 20_000
    np.testing.assert_allclose(share, catalogue.exposure, atol=4 * 0.5 / 20_000**0.5)


def test_last_clicks() -> None:
    history = np.array([[4, -1, 7, -1], [-1, -1, -1, -1], [5, 6, 7, 8], [9, -1, -1, -1]])
    assert last_clicks(history).tolist() == [7, -1, 8, 9]
    assert last_clicks(history[:, :0]).tolist() == [-1] * 4


def test_unknown_names_are_refused_with_the_known_ones(market: Make) -> None:
    with pytest.raises(SlatewiseError, match="more-like-this"):
        named_policy("best", market().catalogue)
