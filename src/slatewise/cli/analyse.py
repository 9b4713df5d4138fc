"""`slatewise analyse`: compare the arms of a service, and estimate arms that did not run."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from slatewise.cli.service import TIMES, ServiceDirectory, ServiceSettings, opened_store
from slatewise.cli.show import console, progress, table
from slatewise.words import counted

if TYPE_CHECKING:
    from slatewise.evaluation.ab import Interval
    from slatewise.service.analysis import Estimates, Report, Variety
    from slatewise.service.settings import ArmConfig, ServiceConfig
    from slatewise.service.store import Store

_EPOCH = date(1970, 1, 1)
_SAMPLE, _A_DAY, _DAYS = 20_000, 2_000, 60
"""Slates of each arm sampled for variety, in all and per day, and the number of days."""


def analyse(
    directory: ServiceDirectory,
    config: ServiceSettings = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            metavar="TIME", formats=TIMES, help="Start of the period (UTC), such as 2026-11-16."
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", formats=TIMES, help="End of the period (UTC), excluded."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="Arm to compare with; the first of the configuration.")
    ] = None,
    worth: Annotated[
        float,
        typer.Option(
            min=0.0001, help="Least difference that matters, as a share of the reference's rate."
        ),
    ] = 0.05,
    estimate: Annotated[
        list[str] | None,
        typer.Option(help="Arm that did not run: model=main,strategy=greedy; repeatable."),
    ] = None,
    slates: Annotated[
        int, typer.Option(min=1, help="Newest slates that an estimate is made from.")
    ] = 1_000,
    draws: Annotated[
        int, typer.Option(min=1, help="Slates drawn to estimate the probability of one.")
    ] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Compare the arms of a service, say when to stop, and estimate arms that did not run."""
    from slatewise.service import analysis  # noqa: PLC0415 (torch is slow to load)
    from slatewise.service.settings import ServiceConfig  # noqa: PLC0415
    from slatewise.service.settings.changed_arms import with_changed_arms  # noqa: PLC0415
    from slatewise.service.store.clock import DAY  # noqa: PLC0415

    given = ServiceConfig.read(config)
    targets = [analysis.read_target(text) for text in estimate or []]
    with opened_store(directory, given) as store:
        settings = with_changed_arms(given, store.arms())
        tally = analysis.Tally()
        tally.read(store)
        found = analysis.report(
            tally,
            settings,
            since=_micros(since),
            until=_micros(until),
            reference=reference,
            worth=worth,
            daily=True,
        )
        varieties = analysis.varieties(store, found.start, found.end + 1, _SAMPLE)
        by_day = {
            day: analysis.varieties(store, day * DAY, (day + 1) * DAY, _A_DAY)
            for day in list(found.daily)[-_DAYS:]
        }
        estimates = [
            _estimate(directory, settings, store, found, target, slates, draws)
            for target in targets
        ]
    if as_json:
        plain = analysis.as_json(found, varieties, by_day)
        plain["estimates"] = [analysis.estimates_json(one) for one in estimates]
        typer.echo(json.dumps(plain, indent=2))
    else:
        _show(found, varieties, by_day, estimates)


def _estimate(
    directory: Path,
    settings: "ServiceConfig",
    store: "Store",
    found: "Report",
    target: "ArmConfig",
    slates: int,
    draws: int,
) -> "Estimates":
    from slatewise.service import analysis  # noqa: PLC0415
    from slatewise.service.serving.replayer import Replayer  # noqa: PLC0415

    visits = analysis.newest_visits(store, found.start, found.end + 1, slates)
    replayer = Replayer(directory, settings, store)
    with progress() as bars:
        return analysis.estimate(
            replayer,
            visits,
            target,
            draws=draws,
            progress=lambda done: bars(target.strategy, done, len(visits)),
        )


def _show(
    found: "Report",
    varieties: "dict[str, Variety]",
    by_day: "dict[int, dict[str, Variety]]",
    estimates: "Sequence[Estimates]",
) -> None:
    if not found.end:
        console.print("The service served no slate in this period.")
        return
    console.print(_rates(found))
    if len(found.arms) > 1:
        console.print(_differences(found))
    for name, arm in found.arms.items():
        if arm.advice is not None:
            console.print(f"{name}: {arm.advice.words(name, found.reference)}")
    console.print(_varieties(varieties))
    console.print(_days(found))
    if len(by_day) > 1:
        console.print(_varieties_by_day(found, by_day))
    for one in estimates:
        console.print(_estimates(one))
        _explain(one)
    if found.changed:
        console.print(
            f"Moved to another arm meanwhile: {counted(found.changed, 'user')}. They count in "
            "their first arm until then, and arms differ in who came when. Without --since, only "
            "what came after is compared."
        )
    if found.assignment.problem:
        console.print(f"Warning: {found.assignment.problem}.")
    console.print(f"\nFrom {_day(found.start)} to {_day(found.end)} (UTC)")


def _rates(found: "Report") -> Table:
    result = table(
        "Click rates, with 95 % intervals over users",
        *("arm", "share", "users", "slates", "no answer", "clicks", "click rate", "best"),
    )
    total = sum(arm.settings.share for arm in found.arms.values() if arm.settings)
    for name, arm in found.arms.items():
        share = f"{arm.settings.share / total:.0%}" if arm.settings else "gone"
        numbers = f"{arm.users:,}", f"{arm.slates:,}", _share(arm.unanswered), f"{arm.clicks:,}"
        result.add_row(name, share, *numbers, _interval(arm.rate), _share(arm.best))
    return result


def _differences(found: "Report") -> Table:
    result = table(
        f"Against {found.reference}",
        *("arm", "difference, for one look", "lift, for one look", "difference, at any time"),
    )
    for name, arm in found.arms.items():
        if arm.versus is not None:
            anytime = _interval(arm.advice.difference, sign="+") if arm.advice else "–"
            versus = _interval(arm.versus.difference, sign="+"), _lift(arm.versus.lift)
            result.add_row(name, *versus, anytime)
    return result


def _varieties(varieties: "dict[str, Variety]") -> Table:
    result = table(
        "Variety of the newest slates",
        *("arm", "slates", "groups in a slate", "different items", "of those on offer", "Gini"),
    )
    for name, one in varieties.items():
        numbers = f"{one.slates:,}", f"{one.groups:.2f}", f"{one.items:,}"
        result.add_row(name, *numbers, _share(one.coverage), f"{one.gini:.2f}")
    return result


def _days(found: "Report") -> Table:
    result = table("Click rates by day", "day", *found.arms)
    for day, rates in found.daily.items():
        cells = (_interval(rates[name]) if name in rates else "–" for name in found.arms)
        result.add_row(str(_EPOCH + timedelta(day)), *cells)
    return result


def _varieties_by_day(found: "Report", by_day: "dict[int, dict[str, Variety]]") -> Table:
    result = table("Groups, items by day", "day", *found.arms)
    for day, found_then in by_day.items():
        cells = [
            f"{found_then[name].groups:.2f}, {found_then[name].items:,}"
            if name in found_then
            else "–"
            for name in found.arms
        ]
        result.add_row(str(_EPOCH + timedelta(day)), *cells)
    return result


def _estimates(one: "Estimates") -> Table:
    title = f"{one.target.strategy} over model {one.target.model}, which did not run"
    result = table(title, "estimator", "click rate", "users' worth", "average weight", "cut")
    result.add_row("as logged", _interval(one.logged), "", "", "")
    for each in one.estimates:
        rate = "refused" if each.problem else _interval(each.rate)
        weight = f"{each.support.value:.2f}"
        result.add_row(
            each.estimator, rate, f"{each.effective_users:,.0f}", weight, _share(each.clipped)
        )
    return result


def _explain(one: "Estimates") -> None:
    console.print(f"From {counted(one.slates, 'slate')}.")
    for reason, count in one.left_out.items():
        console.print(f"{count:,} left out: {reason}.")
    for problem in dict.fromkeys(each.problem for each in one.estimates if each.problem):
        names = ", ".join(each.estimator for each in one.estimates if each.problem == problem)
        console.print(f"Refused, {names}: {problem}.")
    if one.slates and one.exact < 1:
        console.print(
            f"For {1 - one.exact:.0%} of the slates the probability is not known exactly: the "
            "product over positions stands for it in all estimators but per position."
        )


def _interval(rate: "Interval", sign: str = "") -> str:
    if math.isnan(rate.value):
        return "–"
    if not math.isfinite(rate.low):
        return f"{rate.value:{sign}.4f} (too few)"
    return f"{rate.value:{sign}.4f} ({rate.low:{sign}.4f} to {rate.high:{sign}.4f})"


def _lift(rate: "Interval") -> str:
    if not all(map(math.isfinite, (rate.value, rate.low, rate.high))):
        return "–"
    return f"{rate.value:+.1%} ({rate.low:+.1%} to {rate.high:+.1%})"


def _share(value: float) -> str:
    return f"{value:.1%}" if math.isfinite(value) else "–"


def _day(time: int) -> str:
    return datetime.fromtimestamp(time / 1e6, UTC).strftime("%Y-%m-%d")


def _micros(time: datetime | None) -> int | None:
    return None if time is None else int(time.replace(tzinfo=UTC).timestamp()) * 1_000_000
