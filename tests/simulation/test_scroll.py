from math import exp, factorial

import numpy as np
import pytest

from slatewise.simulation.choice import Scroll


@pytest.mark.parametrize(("rate", "longest"), [(11.0, 25), (2.5, 5), (0.1, 3), (1.0, 1)])
def test_pmf_is_the_truncated_poisson(rate: float, longest: int) -> None:
    mass = [exp(-rate) * rate**s / factorial(s) for s in range(1, longest + 1)]
    pmf = Scroll(rate, longest).pmf
    assert pmf.sum() == pytest.approx(1)
    np.testing.assert_allclose(pmf, np.array(mass) / sum(mass))


def test_draws_match_the_pmf(rng: np.random.Generator) -> None:
    scroll, n = Scroll(11.0, 25), 200_000
    counts = np.bincount(scroll.draw(n, rng), minlength=26)
    assert counts[0] == 0
    assert len(counts) == 26
    expected = n * scroll.pmf
    # Chi-square with about 24 degrees of freedom: 60 has probability below 1e-4.
    assert ((counts[1:] - expected) ** 2 / expected)[expected > 5].sum() < 60


def test_default_mean_is_about_eleven() -> None:
    assert Scroll(11.0, 25).mean == pytest.approx(11, abs=0.05)
