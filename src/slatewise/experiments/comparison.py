"""One arm against another: as a finding, as rows of a table, and in words."""

from typing import NamedTuple

from slatewise.experiments.findings import Direction, Finding
from slatewise.experiments.pooling import PooledEstimate
from slatewise.experiments.rates import MEASURES, Measure, Rates, pooled_row
from slatewise.experiments.store import Row


class ArmQuestion(NamedTuple):
    """A comparison of two arms, made wherever both are there."""

    text: str
    first: str
    second: str
    paper: Direction | None = None
    numbers: str = ""


def answer(question: ArmQuestion, rates: Rates, period: str) -> Finding:
    """Compare by expected clicks; what realised clicks say is noted."""

    def difference(measure: Measure) -> PooledEstimate:
        first = rates.rate(question.first, period, measure)
        return (first - rates.rate(question.second, period, measure)).pooled()

    found, realised = difference("expected"), difference("clicks")
    return Finding(
        question.text,
        f"expected click rate, {question.first} minus {question.second}",
        *(found.value, found.low, found.high),
        paper=question.paper,
        paper_numbers=question.numbers,
        note=f"{found.note()}; realised clicks {signed(realised)}",
    )


def differences(rates: Rates, reference: str, period: str) -> list[Row]:
    """Compare every arm with a reference, by both measures."""
    return [
        {"arm": arm, "reference": reference, "period": period, "measure": measure}
        | pooled_row(
            (rates.rate(arm, period, measure) - rates.rate(reference, period, measure)).pooled()
        )
        for arm in rates.arms
        for measure in MEASURES
        if reference in rates.arms and arm != reference
    ]


def percent(found: PooledEstimate) -> str:
    """Show a rate with its interval."""
    value, low, high = (f"{100 * number:.1f}" for number in (found.value, found.low, found.high))
    return f"{value} % [{low}, {high}]"


def signed(found: PooledEstimate) -> str:
    """Show a difference with its interval."""
    shown = (f"{number:+.4f}" for number in (found.value, found.low, found.high))
    value, low, high = (text.replace("-", "−") for text in shown)
    return f"{value} [{low}, {high}]"
