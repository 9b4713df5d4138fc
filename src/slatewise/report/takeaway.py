"""What to take away from a study at a glance: what was tried, what won, by how much, how sure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from slatewise.experiments.findings import WORLDS, Finding, shown_interval


class PairedDifference(NamedTuple):
    """How far something is ahead of a reference on the same users, with a 95 % interval."""

    name: str
    reference: str
    value: float
    low: float
    high: float

    def turned(self) -> "PairedDifference":
        """Return the same from the reference's side."""
        return PairedDifference(self.reference, self.name, -self.value, -self.high, -self.low)


@dataclass(frozen=True)
class Takeaway:
    """Four answers for a reader in a hurry."""

    tried: str
    won: str
    margin: str
    sure: str
    certain: bool
    """whether the interval settles it"""

    @classmethod
    def of_differences(
        cls,
        tried: str,
        differences: Sequence[PairedDifference],
        unit: str,
        *,
        worlds: int | None = None,
    ) -> Self | None:
        """Name the winner of paired comparisons with references; None if there is no comparison.

        Args:
            tried: what was compared, on what.
            differences: everything that was compared with its reference.
            unit: what a difference is measured in.
            worlds: simulated worlds that it rests on, where worlds are what is compared.
        """
        if not differences:
            return None
        best = max(differences, key=lambda one: one.value)
        ahead = best if best.value > 0 else best.turned()
        shown = shown_interval(ahead.value, ahead.low, ahead.high, signed=True)
        margin = f"{shown} {unit} over {ahead.reference}, on the same users"
        if worlds is not None and worlds < WORLDS:
            words = f"no verdict: {worlds} simulated world{'s' * (worlds > 1)}, it takes {WORLDS}"
            return cls(tried, ahead.name, margin, words, False)
        if ahead.low > 0:
            return cls(tried, ahead.name, margin, "sure: the 95 % interval leaves 0 out", True)
        return cls(
            tried, f"{ahead.name} leads", margin, "cannot be told apart by this study", False
        )

    @classmethod
    def of_findings(cls, tried: str, findings: Sequence[Finding]) -> Self | None:
        """Return how many questions are settled, and the first answer; None without a question."""
        if not findings:
            return None
        settled = [finding for finding in findings if finding.verdict != "cannot tell"]
        count = f"{len(settled)} of {len(findings)} questions settled"
        first = (settled or findings)[0]
        return cls(tried, first.question, first.sentence(), count, bool(settled))
