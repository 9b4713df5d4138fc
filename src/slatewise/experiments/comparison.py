"""One arm against another: as a finding, as rows of a table, and in words."""

from dataclasses import asdict
from typing import NamedTuple

from slatewise.experiments.findings import Direction, Finding
from slatewise.experiments.pooling import PooledEstimate
from slatewise.experiments.power import Power, power, slate_variance
from slatewise.experiments.rates import MEASURES, Measure, Rates, bounded, pooled_row
from slatewise.experiments.store import Row


class ArmQuestion(NamedTuple):
    """A comparison of two arms, made wherever both are there."""

    text: str
    first: str
    second: str
    paper: Direction | None = None
    numbers: str = ""


class ArmComparison(NamedTuple):
    """How two arms differ, and how small a difference could have been seen."""

    found: PooledEstimate
    power: Power


def compare_arms(
    rates: Rates, first: str, second: str, period: str, measure: Measure = "expected"
) -> ArmComparison:
    """Return the difference of two click rates."""
    found = (rates.rate(first, period, measure) - rates.rate(second, period, measure)).pooled()
    return ArmComparison(found, power(found, _spread(rates, first, second, period)))


def compare_ratio(rates: Rates, first: str, second: str, period: str) -> ArmComparison:
    """Return the ratio of two expected click rates."""
    below = rates.rate(second, period)
    found = (rates.rate(first, period) / below).pooled()
    spread = _spread(rates, first, second, period)
    return ArmComparison(found, power(found, spread, float(below.values.mean())))


def _spread(rates: Rates, first: str, second: str, period: str) -> float:
    """Add up what a slate of each arm varies by."""
    return sum(
        slate_variance(rates.realised(arm, period), float(rates.rate(arm, period).values.mean()))
        for arm in (first, second)
    )


def finding(
    question: str,
    measure: str,
    compared: ArmComparison,
    *,
    reference: float = 0.0,
    paper: Direction | None = None,
    paper_numbers: str = "",
    note: str = "",
) -> Finding:
    """Make a finding of a comparison, with what it could have seen."""
    found = compared.found
    return Finding(
        question,
        measure,
        *(found.value, found.low, found.high),
        reference=reference,
        paper=paper,
        paper_numbers=paper_numbers,
        note="; ".join(part for part in (found.note(reference), note, str(compared.power)) if part),
        worlds=len(found.by_seed),
    )


def answer(question: ArmQuestion, rates: Rates, period: str) -> Finding:
    """Compare by expected clicks; what realised clicks say is noted."""
    arms = question.first, question.second
    realised = compare_arms(rates, *arms, period, "clicks").found
    return finding(
        question.text,
        f"expected click rate, {question.first} minus {question.second}",
        compare_arms(rates, *arms, period),
        paper=question.paper,
        paper_numbers=question.numbers,
        note=f"realised clicks {signed(realised)}",
    )


def differences(rates: Rates, reference: str, period: str) -> list[Row]:
    """Compare every arm with a reference, by both measures."""
    rows = []
    for arm in rates.arms:
        for measure in MEASURES:
            if reference not in rates.arms or arm == reference:
                continue
            found, seen = compare_arms(rates, arm, reference, period, measure)
            head = {"arm": arm, "reference": reference, "period": period, "measure": measure}
            rows.append(head | pooled_row(found) | asdict(seen))
    return rows


def percent(found: PooledEstimate, most: float = 1.0) -> str:
    """Show a rate, or a ratio without a bound, with its interval."""
    found = bounded(found, most)
    value, low, high = (f"{100 * number:.1f}" for number in (found.value, found.low, found.high))
    return f"{value} % [{low}, {high}]"


def signed(found: PooledEstimate) -> str:
    """Show a difference with its interval."""
    shown = (f"{number:+.4f}" for number in (found.value, found.low, found.high))
    value, low, high = (text.replace("-", "−") for text in shown)
    return f"{value} [{low}, {high}]"
