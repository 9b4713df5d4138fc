"""Whether a new model takes over, and why, in words."""

from dataclasses import dataclass
from typing import Literal

from slatewise.evaluation import Estimate

Rule = Literal["not-worse", "better", "always"]
"""When a new model takes over from the one that serves."""


@dataclass(frozen=True)
class Decision:
    """What becomes of a new model."""

    promote: bool
    why: str


def decide(gain: Estimate | None, rule: Rule, tolerance: float) -> Decision:
    """Decide by the gain in nats per interaction over the model that serves.

    It is None where there is no such model, or too little to judge by.
    """
    if rule == "always":
        return Decision(True, f"every new model is promoted{'' if gain is None else of(gain)}")
    if gain is None:
        return Decision(True, "there was no model before it")
    if rule == "better":
        better = gain.low > 0
        return Decision(better, f"it is {'' if better else 'not '}surely better{of(gain)}")
    if gain.value >= 0 or gain.low > -tolerance:
        return Decision(True, f"it is not worse{of(gain)}")
    return Decision(False, f"it may be worse{of(gain)}")


def is_surely_worse(gain: Estimate, tolerance: float) -> bool:
    """Say whether a model has lost more than the tolerance, and that is no accident."""
    return gain.value < -tolerance and gain.high < 0


def of(gain: Estimate) -> str:
    """Return a gain in words, to stand behind others."""
    value, low, high = map(_signed, (gain.value, gain.low, gain.high))
    return f": {value} [{low}, {high}] nats per interaction"


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
