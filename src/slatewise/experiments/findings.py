"""Findings: sentences that follow from a number and its interval, beside what the paper found."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Self

from slatewise.words import counted

Direction = Literal["above", "below", "equal"]
WORLDS: Final = 3
"""Fewest worlds for a verdict: with fewer, what worlds differ by is hardly known."""


def shown_interval(
    value: float, low: float, high: float, *, signed: bool = False, decimals: int | None = None
) -> str:
    """Return 'value [low, high]', without `decimals` with two digits of the width."""
    width = high - low
    if decimals is None:
        known = math.isfinite(width) and width > 0
        decimals = max(0, 1 - math.floor(math.log10(width))) if known else 3
    sign = "+" if signed else ""
    shown = (f"{number:{sign}.{decimals}f}".replace("-", "−") for number in (value, low, high))
    return "{} [{}, {}]".format(*shown)


@dataclass(frozen=True)
class Finding:
    """One comparison and what may be said of it; the words are chosen by the interval."""

    question: str
    """What one wants to know, such as 'Does the GRU predict better than linear dynamics?'"""
    measure: str
    """What `value` is, such as 'log-likelihood, slate-gru-hier minus slate-linear-hier'."""
    value: float
    low: float
    high: float
    """The 95 % interval; nan where it is not defined."""
    reference: float = 0.0
    """What the interval is held against: 0 for a difference, 1 for a ratio."""
    paper: Direction | None = None
    """Where the paper found the value, relative to the reference; None where it does not say."""
    paper_numbers: str = ""
    """The paper's numbers, such as '−4.96e7 and −4.98e7'."""
    note: str = ""
    """How far to trust it, such as '3 of 3 seeds above 0'; computed as well."""
    worlds: int | None = None
    """Simulated worlds that it rests on; None where worlds are not what is compared."""

    @property
    def verdict(self) -> Literal["above", "below", "cannot tell"]:
        """Where the value is: on the side of the reference that the whole interval is on."""
        if self._too_few:
            return "cannot tell"
        if self.low > self.reference:
            return "above"
        if self.high < self.reference:
            return "below"
        return "cannot tell"

    @property
    def _too_few(self) -> bool:
        return self.worlds is not None and self.worlds < WORLDS

    @property
    def agreement(self) -> Literal["agrees", "disagrees", "cannot tell", "not in the paper"]:
        """Whether this is what the paper found.

        An interval around the reference never agrees: it may also be too wide to see anything.
        """
        if self.paper is None:
            return "not in the paper"
        if self.verdict == "cannot tell":
            return "cannot tell"
        return "agrees" if self.verdict == self.paper else "disagrees"

    @property
    def answer(self) -> str:
        """The answer to the question in a few words: questions ask for what the paper found."""
        if self.verdict == "cannot tell":
            return "This study cannot tell."
        if self.paper is None:
            return "Yes." if self.verdict == "above" else "No, the opposite."
        return "Yes, as in the paper." if self.agreement == "agrees" else "No, unlike in the paper."

    def sentence(self) -> str:
        """Return a sentence: the number, the interval, the verdict, the paper."""
        side = {
            "above": f"above {self.reference:g}",
            "below": f"below {self.reference:g}",
            "cannot tell": f"not clearly different from {self.reference:g}",
        }[self.verdict]
        if self._too_few:
            side = f"no verdict from {counted(self.worlds or 0, 'world')}, {WORLDS} are needed"
        note = f" ({self.note})" if self.note else ""
        sentence = f"{self.measure}: {self.interval()}, {side}{note}."
        if self.paper is None:
            return sentence
        numbers = f" ({self.paper_numbers})" if self.paper_numbers else ""
        return f"{sentence} The paper: {self.paper}{numbers}; {self._held_against_paper()}."

    def _held_against_paper(self) -> str:
        return {
            "agrees": "this agrees",
            "disagrees": "this disagrees",
            "cannot tell": "this is undecided",
        }[self.agreement]

    def interval(self) -> str:
        """Return the value with its interval, signed where it is a difference."""
        return shown_interval(self.value, self.low, self.high, signed=self.reference == 0)

    def to_json(self) -> dict[str, Any]:
        """Return the fields, and what follows from them."""
        return asdict(self) | {
            "verdict": self.verdict,
            "agreement": self.agreement,
            "sentence": self.sentence(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Read what `to_json` wrote; what follows from the fields is worked out again."""
        fields = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        for name in ("value", "low", "high"):
            fields[name] = float("nan") if fields[name] is None else float(fields[name])
        return cls(**fields)
