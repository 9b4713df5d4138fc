"""When a new model takes over."""

import numpy as np
import pytest

from slatewise.evaluation import Estimate
from slatewise.service.nights.deciding import Rule, decide, is_surely_worse


def gain(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 100, np.zeros(1), "")


@pytest.mark.parametrize(
    ("rule", "found", "promoted"),
    [
        ("not-worse", gain(0.02, -0.1, 0.3), True),
        ("not-worse", gain(0.0, -0.1, 0.1), True),
        ("not-worse", gain(-0.004, -0.009, 0.003), True),
        ("not-worse", gain(-0.004, -0.011, 0.003), False),
        ("not-worse", gain(np.nan, np.nan, np.nan), False),
        ("better", gain(0.02, 0.001, 0.3), True),
        ("better", gain(0.02, -0.001, 0.3), False),
        ("always", gain(-1.0, -1.1, -0.9), True),
        ("not-worse", None, True),
        ("better", None, True),
        ("always", None, True),
    ],
)
def test_a_model_is_promoted_by_the_rule(
    rule: Rule, found: Estimate | None, promoted: bool
) -> None:
    decision = decide(found, rule, tolerance=0.01)
    assert decision.promote is promoted
    if found is not None and np.isfinite(found.value):
        assert f"{abs(found.low):.4f}" in decision.why


def test_a_version_is_surely_worse_by_more_than_the_tolerance_and_by_no_accident() -> None:
    assert is_surely_worse(gain(-0.05, -0.1, -0.001), 0.01)
    assert not is_surely_worse(gain(-0.05, -0.1, 0.001), 0.01)
    assert not is_surely_worse(gain(-0.005, -0.006, -0.004), 0.01)
