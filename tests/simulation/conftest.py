from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from slatewise.simulation import Marketplace, load_config
from slatewise.simulation.arrays import Ints

TRUTHS = ("paper", "outside")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def market() -> Callable[..., Marketplace]:
    def make(**overrides: Any) -> Marketplace:
        return Marketplace(load_config("tiny", **overrides))

    return make


class Fixed:
    """Shows everybody in the batch the slates it was given."""

    def __init__(self, slates: Ints) -> None:
        self.slates = slates

    def recommend(self, history: Ints, k: int, rng: np.random.Generator) -> Ints:
        return self.slates


def distinct(slates: Ints) -> bool:
    ordered = np.sort(slates, axis=1)
    return bool((ordered[:, 1:] != ordered[:, :-1]).all())
