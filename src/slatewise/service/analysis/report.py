"""What an experiment says: click rates of arms, what tells them apart, and whether to stop."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.evaluation.ab import Comparison, Interval, click_rate, compare, probability_best
from slatewise.evaluation.arms import ArmTotals
from slatewise.evaluation.bootstrap import LEVEL
from slatewise.evaluation.sequential import Advice, advise
from slatewise.service.analysis.assignment import Assignment, check_assignment
from slatewise.service.analysis.tally import CountedSlates, Tally
from slatewise.service.analysis.variety import Variety
from slatewise.service.settings import ArmConfig, ServiceConfig
from slatewise.service.store.clock import DAY, iso

FOREVER = 2**62
_NO_USERS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class ArmReport:
    """One arm."""

    settings: ArmConfig | None
    """None for an arm of the log that the configuration does not have any more."""
    users: int
    """Who were shown anything."""
    slates: int
    seen: int
    """Slates of which it is known what became of them: only they count in rates."""
    clicks: int
    """Slates among these with a click."""
    rate: Interval
    """Clicks per slate seen."""
    best: float
    """Probability that its rate is the greatest."""
    versus: Comparison | None
    """Against the reference, if it is looked at once."""
    advice: Advice | None
    """Against the reference, valid at any number of looks."""

    @property
    def unanswered(self) -> float:
        """Share of its slates of which nothing was heard."""
        return 1 - self.seen / self.slates if self.slates else math.nan


@dataclass(frozen=True)
class Report:
    """All arms over some time."""

    start: int
    """Time of the first slate that counts."""
    end: int
    """Time of the last one."""
    reference: str
    arms: Mapping[str, ArmReport]
    assignment: Assignment
    changed: int
    """Users who were moved to another arm meanwhile."""
    daily: Mapping[int, Mapping[str, Interval]]
    """Click rates of every day alone, by the number of the day since 1970."""

    @property
    def days(self) -> float:
        """How long that is."""
        return max(self.end - self.start, 0) / DAY


def report(
    tally: Tally,
    config: ServiceConfig,
    *,
    since: int | None = None,
    until: int | None = None,
    reference: str | None = None,
    worth: float = 0.05,
    daily: bool = False,
) -> Report:
    """Analyse the slates from `since` to before `until`.

    Without `since`, from when the youngest of the running arms made its first slate, or, if that
    was later, from when users were last moved between arms. `reference` is the first arm of the
    configuration unless said; `worth` the least difference that matters, as a share of its click
    rate.
    """
    slates = tally.slates(beginning(tally, config) if since is None else since, until or FOREVER)
    totals = _in_order(slates.totals(), config)
    chosen = next(iter(config.arms)) if reference is None else reference
    if chosen not in totals:
        raise SlatewiseError(
            f"there is no arm '{chosen}'.", f"Choose one of {', '.join(totals)} as reference."
        )
    start, end = (int(slates.time.min()), int(slates.time.max())) if len(slates.time) else (0, 0)
    days = max((end - start) / DAY, 1.0)
    best, people, counts = probability_best(totals), slates.people(), slates.count()
    arms = {
        name: ArmReport(
            settings=config.arms.get(name),
            users=people.get(name, 0),
            slates=counts.get(name, (0, 0))[0],
            seen=counts.get(name, (0, 0))[1],
            clicks=int(arm.clicks.sum()),
            rate=click_rate(arm),
            best=best[name],
            versus=None if name == chosen else compare(arm, totals[chosen]),
            advice=_advice(name, chosen, totals, worth, days),
        )
        for name, arm in totals.items()
    }
    assignment = check_assignment(people, config.shares)
    rates = _daily(slates) if daily else {}
    return Report(start, end, chosen, arms, assignment, slates.changed, rates)


def beginning(tally: Tally, config: ServiceConfig) -> int:
    """Return since when the arms that run now can be compared."""
    first = tally.first()
    running = [first[arm] for arm, share in config.shares.items() if share and arm in first]
    return max([tally.settled(), *running])


def _in_order(totals: dict[str, ArmTotals], config: ServiceConfig) -> dict[str, ArmTotals]:
    """Return the arms of the configuration first, then those that only the log has."""
    nothing = ArmTotals(*[_NO_USERS] * 2)
    configured = {name: totals.get(name, nothing) for name in config.arms}
    return configured | {name: arm for name, arm in totals.items() if len(arm.clicks)}


def _advice(
    name: str, reference: str, totals: Mapping[str, ArmTotals], worth: float, days: float
) -> Advice | None:
    """Advise on an arm; several against one reference share what may go wrong."""
    least = worth * totals[reference].click_rate
    if name == reference or not least > 0:
        return None
    level = 1 - (1 - LEVEL) / (len(totals) - 1)
    return advise(totals[name], totals[reference], least, days=days, level=level)


def _daily(slates: CountedSlates) -> dict[int, dict[str, Interval]]:
    return {
        day: {name: click_rate(arm) for name, arm in some.totals().items() if len(arm.clicks)}
        for day, some in slates.by_day().items()
    }


def as_json(
    found: Report,
    varieties: Mapping[str, Variety],
    by_day: Mapping[int, Mapping[str, Variety]] | None = None,
) -> dict[str, Any]:
    """Return it for programs; None stands for what is not known."""
    return {
        "since": iso(found.start),
        "until": iso(found.end),
        "days": round(found.days, 3),
        "reference": found.reference,
        "arms": {
            name: _arm_json(name, arm, found.reference, varieties.get(name))
            for name, arm in found.arms.items()
        },
        "assignment": {"p": found.assignment.p, "problem": found.assignment.problem},
        "users_moved": found.changed,
        "daily": {
            iso(day * DAY)[:10]: {
                name: {
                    "click_rate": rate.to_json(),
                    "diversity": _variety_json((by_day or {}).get(day, {}).get(name)),
                }
                for name, rate in rates.items()
            }
            for day, rates in found.daily.items()
        },
    }


def _arm_json(name: str, arm: ArmReport, reference: str, variety: Variety | None) -> dict[str, Any]:
    settings = arm.settings
    return {
        "model": settings.model if settings else None,
        "strategy": settings.strategy if settings else None,
        "share": settings.share if settings else 0.0,
        "users": arm.users,
        "slates": arm.slates,
        "seen": arm.seen,
        "unanswered": finite(arm.unanswered),
        "clicks": arm.clicks,
        "click_rate": arm.rate.to_json(),
        "best": finite(arm.best),
        "difference": arm.versus.difference.to_json() if arm.versus else None,
        "lift": arm.versus.lift.to_json() if arm.versus else None,
        "advice": _advice_json(arm.advice, name, reference) if arm.advice else None,
        "diversity": _variety_json(variety),
    }


def _variety_json(variety: Variety | None) -> dict[str, float | None] | None:
    if variety is None:
        return None
    return {name: finite(value) for name, value in asdict(variety).items()}


def _advice_json(advice: Advice, arm: str, reference: str) -> dict[str, Any]:
    return {
        "verdict": advice.verdict.value,
        "stop": advice.stop,
        "words": advice.words(arm, reference),
        "difference": advice.difference.to_json(),
        "worth": advice.worth,
        "more_days": advice.more_days,
    }


def finite(value: float) -> float | None:
    """Return a number, None for nan and infinities."""
    return value if math.isfinite(value) else None
