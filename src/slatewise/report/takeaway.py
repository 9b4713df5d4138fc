"""The takeaway of a study: what was tried, what won, by how much, and how certain that is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

from slatewise.experiments.findings import WORLDS, Finding, shown_interval
from slatewise.words import counted


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


Unit = Literal["nats", "click rate"]


def in_plain_words(ahead: PairedDifference, unit: Unit) -> str:
    """Say what a difference comes to, without its unit."""
    if unit == "nats":  # a mean of logarithms: the ratio of probabilities is its exponential
        share = f"{math.expm1(ahead.value):.1%}".replace("%", " %")
        return f"What users did is {share} more probable under it than under “{ahead.reference}”."
    more = f"{1000 * ahead.value:.{0 if ahead.value >= 0.01 else 1}f}"
    return f"Of 1,000 slates, {more} more are clicked than with “{ahead.reference}”."


@dataclass(frozen=True)
class Takeaway:
    """Five answers for a reader in a hurry."""

    tried: str
    won: str
    meaning: str
    """the margin in plain words"""
    margin: str
    sure: str
    certain: bool
    """whether the interval settles it"""

    @classmethod
    def of_differences(
        cls,
        tried: str,
        differences: Sequence[PairedDifference],
        unit: Unit,
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
        meaning = in_plain_words(ahead, unit)
        if worlds is not None and worlds < WORLDS:
            words = f"no verdict: {counted(worlds, 'simulated world')} ({WORLDS} needed)"
            return cls(tried, f"“{ahead.name}” leads", meaning, margin, words, False)
        if ahead.low > 0:
            settled = "settled: the 95 % interval excludes 0"
            return cls(tried, f"“{ahead.name}” wins", meaning, margin, settled, True)
        unclear = "no clear difference in this study"
        return cls(tried, f"“{ahead.name}” leads", meaning, margin, unclear, False)

    @classmethod
    def of_findings(cls, tried: str, findings: Sequence[Finding]) -> Self | None:
        """Return how many questions are settled, and the first answer; None without a question."""
        if not findings:
            return None
        settled = [finding for finding in findings if finding.verdict != "cannot tell"]
        count = f"{len(settled)} of {len(findings)} questions settled"
        first = (settled or findings)[0]
        return cls(tried, first.question, first.answer, first.sentence(), count, bool(settled))
