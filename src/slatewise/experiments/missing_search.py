"""`missing-search`: a week of searches is lost from the log (Table 2 and Figure 3).

All-item and slate serve side by side, as in the paper. In the lost week users search and click as
ever, but the platform does not record it. The rolling window then lacks that week, until it has
moved past it. Beside it, how both fare when ever less of the log is search.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final, Self

from pydantic import PositiveInt, field_validator, model_validator

from slatewise.experiments.comparison import ArmComparison, compare_ratio, finding, percent
from slatewise.experiments.days import retrain, run_days
from slatewise.experiments.findings import Direction, Finding
from slatewise.experiments.model_policy import ModelPolicy, ServedModel
from slatewise.experiments.online import Arm, OnlineConfig
from slatewise.experiments.platform import Platform
from slatewise.experiments.power import Power, power
from slatewise.experiments.rates import (
    MEASURES,
    Measure,
    Rates,
    RateSample,
    bounded,
    daily_rates,
    pooled_row,
)
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Bench, Study, Summary, Unit
from slatewise.slates.strategies import Greedy

SLATE, ALL_ITEM = Arm("slate-gru-hier"), Arm("all-item-gru-hier")
BEFORE, LOST, MISSING, LEAVING, AFTER = "before", "lost week", "missing", "leaving", "after"
PAPER: Final = {
    BEFORE: ("109.2 %", "15.6 %", "17.0 %"),
    MISSING: ("93.7 %", "22.0 %", "20.6 %"),
    AFTER: ("105.5 %", "20.2 %", "21.3 %"),
}
"""Table 2: relative click rate, that of slate, that of all-item."""

_DAYS: Final = "days"


class MissingSearchConfig(OnlineConfig):
    """Settings of the study of lost searches."""

    before: PositiveInt = 7
    """Days before the loss."""
    lost: PositiveInt = 7
    """Days whose searches are lost; no more than the window has."""
    after: PositiveInt = 7
    """Days after the window has moved past the loss."""
    shares: tuple[float, ...] = (1.0, 0.8, 0.5, 0.2, 0.0)
    """Shares of search at which both models are compared; none leaves the comparison out."""

    @field_validator("shares")
    @classmethod
    def _shares(cls, shares: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0 <= share <= 1 for share in shares) or len(set(shares)) < len(shares):
            raise ValueError("shares are different numbers from 0 to 1")
        return shares

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.lost > self.window:
            raise ValueError("more days are lost than the window has: no night would lack them all")
        return self

    def periods(self) -> dict[str, range]:
        """Return the days of each period.

        Models that serve on day d have learned from the `window` days before it: the loss is
        whole in the window from the day after it until its first day drops out.
        """
        found, back = self.before + self.lost, self.before + self.window + 1
        over = self.before + self.window + self.lost
        periods = {
            BEFORE: range(self.before),
            LOST: range(self.before, found),
            MISSING: range(found, back),
            LEAVING: range(back, over),
            AFTER: range(over, over + self.after),
        }
        return {name: days for name, days in periods.items() if days}  # a single day leaves at once


def units(config: MissingSearchConfig) -> list[Unit]:
    """One unit for each seed, and one for each seed and share of search."""
    parts = [_DAYS, *(f"share-{share:g}" for share in config.shares)]
    return [Unit(seed, part) for seed in config.seeds for part in parts]


def run(config: MissingSearchConfig, unit: Unit, bench: Bench) -> Tables:
    """Run the days of one seed, or one share of search."""
    if unit.part == _DAYS:
        periods = config.periods()
        return run_days(
            *(config, unit.seed, [SLATE, ALL_ITEM], periods[AFTER].stop, bench),
            lost=periods[LOST],
        )
    share = float(unit.part.removeprefix("share-"))
    variants = (SLATE.variant, ALL_ITEM.variant)
    return {"shares": _judge_share(config, unit.seed, share, variants, bench)}


def _judge_share(
    config: OnlineConfig, seed: int, share: float, variants: Sequence[str], bench: Bench
) -> list[Row]:
    """Judge the likelihoods when less and less of the log is search: a row per variant.

    A world of its own fills a window of log with that share of searches, the rest by the
    simulator's policy; the models learn from it, and their greedy slates, which are not shown, are
    judged by the exact click probability of all users of the next day.
    """
    world = config.simulated(seed).model_copy(update={"search_share": share})
    platform = Platform(config, world, days=1, arms=1, folder=bench.scratch)
    platform.warm_up()
    dataset = platform.log.dataset(day=0)
    rows = []
    for number, variant in enumerate(variants):
        bench.progress(f"seed {seed}, search share {share:g}", number, len(variants))
        model = retrain(config, {}, variant, dataset, seed, platform.log.table)
        served = ServedModel(model, dataset, platform)
        who, expected = platform.judge(ModelPolicy(served, Greedy(), world.max_slate), day=0)
        rows.append(
            {
                "seed": seed,
                "arm": variant,
                "search_share": share,
                "users": who,
                "expected": expected.round(6),
            }
        )
    return rows


def summarise(config: MissingSearchConfig, tables: Tables) -> Summary:
    """Compare all-item with slate in every period, and at every share of search."""
    rates = Rates(tables["shown"], config.periods(), config.resamples)
    shown: Tables = {
        "rates": rates.table(),
        "relative": _relative_rows(rates),
        "daily": daily_rates(tables["shown"]),
        "table2": _table2(rates),
    }
    findings = list(_findings(rates))
    if config.shares:
        swept = _swept(tables["shares"], config.resamples)
        shown["sweep"] = _sweep_rows(swept, config.shares)
        findings += _sweep_findings(swept, config.shares)
    columns = (
        "period",
        "days",
        "paper: all-item / slate",
        "all-item / slate",
        "of realised clicks",
    )
    shown["headline"] = [{name: row[name] for name in columns} for row in shown["table2"]]
    return Summary(shown, findings, headline="headline")


def _relative(rates: Rates, period: str, measure: Measure = "expected") -> RateSample:
    """All-item over slate, as in the paper."""
    return rates.rate(ALL_ITEM.name, period, measure) / rates.rate(SLATE.name, period, measure)


def _relative_rows(rates: Rates) -> list[Row]:
    return [
        {"period": period, "measure": measure}
        | pooled_row(bounded(_relative(rates, period, measure).pooled(), math.inf))
        for period in rates.periods
        for measure in MEASURES
    ]


def _table2(rates: Rates) -> list[Row]:
    """One row per period, for display."""
    rows = []
    for period, days in rates.periods.items():
        relative, slate, all_item = PAPER.get(period, ("", "", ""))
        rows.append(
            {
                "period": period,
                "days": f"{min(days) + 1}–{max(days) + 1}",
                "paper: all-item / slate": relative,
                "all-item / slate": percent(_relative(rates, period).pooled(), math.inf),
                "of realised clicks": percent(
                    _relative(rates, period, "clicks").pooled(), math.inf
                ),
                "paper: slate": slate,
                "slate": percent(rates.rate(SLATE.name, period).pooled()),
                "paper: all-item": all_item,
                "all-item": percent(rates.rate(ALL_ITEM.name, period).pooled()),
            }
        )
    return rows


def _findings(rates: Rates) -> Iterator[Finding]:
    for period, words, paper in (
        (BEFORE, "before searches are lost", "above"),
        (MISSING, "while the window lacks them", "below"),
        (AFTER, "after the window has moved past the loss", "above"),
    ):
        direction: Direction = "above" if paper == "above" else "below"
        yield _ratio_finding(
            f"Is the click rate of all-item above that of slate {words}?",
            f"expected click rate, all-item / slate, {period}",
            compare_ratio(rates, ALL_ITEM.name, SLATE.name, period),
            direction,
            PAPER[period][0],
        )
    yield _ratio_finding(
        "Does all-item lose ground to slate when the window lacks a week of searches?",
        "all-item / slate while missing, divided by the same before",
        _lost_ground(rates),
        "below",
        "93.7 % after 109.2 %",
    )


def _lost_ground(rates: Rates) -> ArmComparison:
    """Compare all-item / slate while searches are missing with the same before.

    A live test would have to tell two ratios of two arms each.
    """
    found = (_relative(rates, MISSING) / _relative(rates, BEFORE)).pooled()
    arms = ALL_ITEM.name, SLATE.name
    tested = [compare_ratio(rates, *arms, period) for period in (BEFORE, MISSING)]
    smallest = power(found, 0.0).smallest
    slates = sum(one.power.live_slates * (one.power.smallest / smallest) ** 2 for one in tested)
    return ArmComparison(found, Power(smallest, slates))


def _ratio_finding(
    question: str,
    measure: str,
    compared: ArmComparison,
    paper: Direction | None = None,
    numbers: str = "",
) -> Finding:
    return finding(question, measure, compared, reference=1.0, paper=paper, paper_numbers=numbers)


def _swept(rows: Sequence[Row], resamples: int) -> Rates:
    """Take the judged slates for slates shown, each share of search for a period of its own."""
    percents = {row["search_share"]: round(100 * row["search_share"]) for row in rows}
    shown = [
        row
        | {
            "day": percents[row["search_share"]],
            "slates": [1] * len(row["users"]),
            **dict.fromkeys(("served", "clicks"), [0] * len(row["users"])),
        }
        for row in rows
    ]
    periods = {f"{share:g}": [day] for share, day in percents.items()}
    return Rates(shown, periods, resamples)


def _sweep_rows(swept: Rates, shares: Sequence[float]) -> list[Row]:
    rows = []
    for share in shares:
        slate, all_item = (
            swept.rate(variant, f"{share:g}") for variant in (SLATE.variant, ALL_ITEM.variant)
        )
        for what, found in (
            ("slate", slate),
            ("all-item", all_item),
            ("all-item / slate", all_item / slate),
        ):
            rows.append({"search_share": share, "what": what} | pooled_row(found.pooled()))
    return rows


def _sweep_findings(swept: Rates, shares: Sequence[float]) -> Iterator[Finding]:
    for share in shares:
        yield _ratio_finding(
            f"With {share:.0%} of the log search, is all-item above slate?",
            f"exact click rate of greedy slates, all-item / slate, {share:.0%} search",
            compare_ratio(swept, ALL_ITEM.variant, SLATE.variant, f"{share:g}"),
        )


STUDY: Final = Study(
    "missing-search",
    "Online: a week of searches is lost from the log",
    MissingSearchConfig,
    units,
    run,
    summarise,
)
