"""`online-strategies`: greedy, Thompson and in-slate Thompson sampling (Table 3).

`pooled` is the paper's experiment: every strategy and model gets an equal share of the users, and
all models learn from the log of all. `own` is what the paper could not run: every strategy has the
same people to itself, from the same warm-up on, and learns from nothing but its own slates.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Self

import polars as pl
from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from slatewise.experiments.comparison import ArmQuestion, answer, differences, percent
from slatewise.experiments.days import run_days
from slatewise.experiments.findings import Direction, Finding
from slatewise.experiments.online import Arm, OnlineConfig, require_strategies, require_variants
from slatewise.experiments.rates import Rates, daily_rates
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Bench, Study, Summary, Unit

POOLED, OWN = "pooled", "own"
GREEDY, THOMPSON, IN_SLATE = "greedy", "thompson", "in-slate-thompson"

PAPER: Final = {
    "slate-gru-hier-greedy": "20.2 %",
    "slate-gru-hier-thompson": "20.9 %",
    "slate-gru-hier-in-slate-thompson": "20.0 %",
    "all-item-gru-hier-greedy": "21.3 %",
    "all-item-gru-hier-thompson": "21.0 %",
    "all-item-gru-hier-in-slate-thompson": "22.7 %",
}
"""Click rates of Table 3."""

_FOUND: Final[dict[str, Direction]] = {
    "slate-gru-hier-thompson": "above",
    "slate-gru-hier-in-slate-thompson": "equal",
    "all-item-gru-hier-thompson": "equal",
    "all-item-gru-hier-in-slate-thompson": "above",
}
"""Table 3 against greedy; of 66,300 to 100,700 slates each, less than ±0.4 % is chance."""


class OnlineStrategiesConfig(OnlineConfig):
    """Settings of the study of strategies."""

    variants: tuple[str, ...] = Field(default=("slate-gru-hier", "all-item-gru-hier"), min_length=1)
    """Models to compare."""
    strategies: tuple[str, ...] = Field(default=(GREEDY, THOMPSON, IN_SLATE), min_length=1)
    """Strategies of each model, an arm each."""
    days: NonNegativeInt = 5
    """Days of the part `pooled`; 0 leaves it out."""
    own_days: NonNegativeInt = 30
    """Days of the part `own`; 0 leaves it out."""
    own_users: PositiveInt | None = None
    """People of each arm in the part `own`; half of `users` if not set."""

    _variants = field_validator("variants")(require_variants)
    _strategies = field_validator("strategies")(require_strategies)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.days and not self.own_days:
            raise ValueError("days and own_days are both 0: nothing would be run")
        return self

    def arms(self) -> list[Arm]:
        """Return every model with every strategy."""
        return [Arm(variant, strategy) for variant in self.variants for strategy in self.strategies]


def units(config: OnlineStrategiesConfig) -> list[Unit]:
    """One unit for each seed where arms share a world, one for each arm where they do not."""
    own = [f"{OWN}-{arm.name}" for arm in config.arms()] if config.own_days else []
    parts = [*([POOLED] if config.days else []), *own]
    return [Unit(seed, part) for seed in config.seeds for part in parts]


def run(config: OnlineStrategiesConfig, unit: Unit, bench: Bench) -> Tables:
    """Run all arms in one world, or one arm in a world of its own."""
    if unit.part == POOLED:
        tables = run_days(config, unit.seed, config.arms(), config.days, bench)
    else:
        arm = next(arm for arm in config.arms() if unit.part == f"{OWN}-{arm.name}")
        people = config.own_users or max(1, config.people() // 2)
        alone = config.model_copy(update={"users": people})
        tables = run_days(alone, unit.seed, [arm], config.own_days, bench)
    part = POOLED if unit.part == POOLED else OWN
    return {name: [{"part": part, **row} for row in rows] for name, rows in tables.items()}


def summarise(config: OnlineStrategiesConfig, tables: Tables) -> Summary:
    """Pool over days and seeds, set Table 3 beside the paper's, and compare with greedy."""
    shown: Tables = {}
    findings: list[Finding] = []
    for part, periods in _periods(config).items():
        rows = [row for row in tables["shown"] if row["part"] == part]
        rates = Rates(rows, periods, config.resamples)
        made = {
            "rates": rates.table(),
            "differences": _differences(config, rates),
            "daily": daily_rates(rows),
            "varied": _varied(tables, part),
        }
        for name, found in made.items():
            shown.setdefault(name, []).extend({"part": part, **row} for row in found)
        shown[f"table3_{part}"] = _table3(config, rates, made["varied"], part)
        findings += _findings(config, rates, part)
    shown["headline"] = [
        {short: row[name].partition(" [")[0] for name, short in _headings(config) if name in row}
        for row in shown[f"table3_{POOLED if config.days else OWN}"]
    ]
    return Summary(shown, findings, headline="headline")


def _headings(config: OnlineStrategiesConfig) -> Sequence[tuple[str, str]]:
    """Return which columns of Table 3 fit a terminal, with short names."""
    return (
        *(("algorithm", "algorithm"), ("paper: click rate", "paper"), ("click rate", "clicks")),
        *(("expected", "expected"), (f"items under {config.few_views} views", "little-seen")),
    )


def _periods(config: OnlineStrategiesConfig) -> dict[str, dict[str, range]]:
    """Return the periods of both parts; own days also in thirds, to see what learning does."""
    periods = {}
    if config.days:
        periods[POOLED] = {_whole(config.days): range(config.days)}
    if config.own_days:
        third = max(1, config.own_days // 3)
        last = range(config.own_days - third, config.own_days)
        periods[OWN] = {
            _whole(config.own_days): range(config.own_days),
            _of_days("first", third): range(third),
            _of_days("last", third): last,
        }
    return periods


def _whole(days: int) -> str:
    return _of_days("all", days)


def _of_days(which: str, days: int) -> str:
    return f"{which} day" if days == 1 else f"{which} {days} days"


def _differences(config: OnlineStrategiesConfig, rates: Rates) -> list[Row]:
    return [
        row
        for variant in config.variants
        for period in rates.periods
        for row in differences(rates, f"{variant}-{GREEDY}", period)
        if row["arm"].startswith(variant)
    ]


def _varied(tables: Tables, part: str) -> list[Row]:
    """Average over days and seeds how varied the slates of each arm were."""
    names = ("distinct_groups", "intra_list_distance", "little_seen")
    slates, arms = (
        pl.DataFrame(tables[name], infer_schema_length=None).filter(part=part)
        for name in ("slates", "arms")
    )
    weighted = [(pl.col(name) * pl.col("slates")).sum() / pl.col("slates").sum() for name in names]
    daily = slates.filter(pl.col("slates") > 0).group_by("arm", maintain_order=True).agg(weighted)
    whole = arms.group_by("arm", maintain_order=True).agg(pl.col("coverage", "gini").mean())
    return daily.join(whole, on="arm", maintain_order="left").to_dicts()


def _table3(
    config: OnlineStrategiesConfig, rates: Rates, varied: Sequence[Row], part: str
) -> list[Row]:
    """One row per arm, for display."""
    period = next(iter(rates.periods))
    about = {row["arm"]: row for row in varied}
    rows = []
    for arm in rates.arms:
        row = {"algorithm": arm}
        if part == POOLED:
            row["paper: click rate"] = PAPER.get(arm, "")
        row |= {
            "slates": f"{rates.count(arm, period, 'served'):,.0f}",
            "clicks": f"{rates.count(arm, period, 'clicks'):,.0f}",
            "click rate": percent(rates.rate(arm, period, "clicks").pooled()),
            "expected": percent(rates.rate(arm, period, "expected").pooled()),
        }
        if part == OWN:
            last = list(rates.periods)[-1]
            row[f"expected, {last}"] = percent(rates.rate(arm, last, "expected").pooled())
        found = about[arm]
        row |= {
            "groups a slate": f"{found['distinct_groups']:.1f}",
            "distance in slate": f"{found['intra_list_distance']:.2f}",
            "coverage": f"{100 * found['coverage']:.0f} %",
            f"items under {config.few_views} views": f"{100 * found['little_seen']:.1f} %",
        }
        rows.append(row)
    return rows


_WORDS: Final = {THOMPSON: "Thompson sampling", IN_SLATE: "in-slate Thompson sampling"}


def _findings(config: OnlineStrategiesConfig, rates: Rates, part: str) -> Iterator[Finding]:
    period = list(rates.periods)[-1]  # of own days the last, when learning has had its time
    how = "learning from all" if part == POOLED else f"learning from its own slates, {period}"
    for variant in config.variants:
        greedy = Arm(variant, GREEDY).name
        for strategy in config.strategies:
            arm = Arm(variant, strategy).name
            if strategy == GREEDY or greedy not in rates.arms:
                continue
            text = f"{how.capitalize()}: does {_WORDS.get(strategy, strategy)} have a higher click "
            text += f"rate than greedy with {variant}?"
            paper = _FOUND.get(arm) if part == POOLED else None
            numbers = f"{PAPER[arm]} against {PAPER[greedy]}" if paper else ""
            yield answer(ArmQuestion(text, arm, greedy, paper, numbers), rates, period)
    slate, all_item = (f"{name}-{GREEDY}" for name in ("slate-gru-hier", "all-item-gru-hier"))
    if part == POOLED and {slate, all_item} <= set(rates.arms):
        text = "Greedy: does all-item have a higher click rate than slate?"
        numbers = f"{PAPER[all_item]} against {PAPER[slate]}"
        yield answer(ArmQuestion(text, all_item, slate, "above", numbers), rates, period)


STUDY: Final = Study(
    "online-strategies",
    "Online: greedy and Thompson strategies serve simulated users",
    OnlineStrategiesConfig,
    units,
    run,
    summarise,
)
