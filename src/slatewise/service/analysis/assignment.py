"""Whether users are in the arms as the shares say: if not, something is wrong."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ALARM: Final = 0.001
"""p-value below which an alarm is given; small, for it is looked at every day."""


@dataclass(frozen=True)
class Assignment:
    """Users of each arm against its share (a check for sample ratio mismatch)."""

    users: Mapping[str, int]
    expected: Mapping[str, float]
    p: float
    """Probability of so great a deviation, or a greater one, by chance; 1 with fewer than two
    arms."""

    @property
    def problem(self) -> str | None:
        """What to say about it, None if all is well."""
        if self.p >= ALARM:
            return None
        found = ", ".join(
            f"{arm} {self.users[arm]:,} for {expected:,.0f}"
            for arm, expected in self.expected.items()
        )
        return (
            f"users are not in the arms as the shares say (p = {self.p:.1g}: {found}). If shares "
            "were changed, look only at what came after; if not, an arm loses slates or users, and "
            "its click rate means nothing"
        )


def check_assignment(users: Mapping[str, int], shares: Mapping[str, float]) -> Assignment:
    """Compare the users of each arm with the shares, by χ²; arms without a share are left out."""
    running = {arm: share for arm, share in shares.items() if share > 0}
    counts = {arm: users.get(arm, 0) for arm in running}
    total, whole = sum(counts.values()), sum(running.values())
    expected = {arm: total * share / whole for arm, share in running.items()}
    if total == 0 or len(running) < 2:
        return Assignment(counts, expected, 1.0)
    distance = sum((counts[arm] - expected[arm]) ** 2 / expected[arm] for arm in running)
    return Assignment(counts, expected, chi_square_tail(distance, len(running) - 1))


def chi_square_tail(value: float, freedom: int) -> float:
    """Return P(X ≥ value) of X ~ χ² with the given degrees of freedom.

    From one or two degrees upwards by Q(a + 1, x) = Q(a, x) + xᵃ e⁻ˣ / Γ(a + 1).
    """
    x, odd = value / 2, freedom % 2
    tail, a = (math.erfc(math.sqrt(x)), 0.5) if odd else (math.exp(-x), 1.0)
    while a < freedom / 2:
        tail += math.exp(a * math.log(x) - x - math.lgamma(a + 1)) if x > 0 else 0.0
        a += 1
    return min(tail, 1.0)
