"""`online-models`: the variants serve simulated users side by side (Table 1, right, and Figure 2).

Every variant gets an equal random share of the users for two weeks and recommends greedily; all
are retrained every night on the log of all.
"""

from collections.abc import Iterator
from typing import Final

from pydantic import Field, PositiveInt, field_validator

from slatewise.experiments.comparison import ArmQuestion, answer, differences, percent
from slatewise.experiments.days import run_days
from slatewise.experiments.findings import Finding
from slatewise.experiments.online import Arm, OnlineConfig, require_variants
from slatewise.experiments.rates import Rates, daily_rates
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Bench, Study, Summary, Unit
from slatewise.experiments.variants import VARIANTS

PAPER: Final = {
    "slate-gru-hier-greedy": "15.6 %",
    "slate-linear-hier-greedy": "10.3 %",
    "slate-gru-flat-greedy": "15.5 %",
    "all-item-gru-hier-greedy": "17.0 %",
}
"""Online click rates of Table 1."""

ALL: Final = "all days"


class OnlineModelsConfig(OnlineConfig):
    """Settings of the study of models."""

    variants: tuple[str, ...] = Field(default=tuple(VARIANTS), min_length=1)
    """The models that serve, each in an arm of its own."""
    days: PositiveInt = 14
    """Days of the study."""

    _known = field_validator("variants")(require_variants)


def units(config: OnlineModelsConfig) -> list[Unit]:
    """One unit for each seed: all arms live in one world."""
    return [Unit(seed) for seed in config.seeds]


def run(config: OnlineModelsConfig, unit: Unit, bench: Bench) -> Tables:
    """Run the experiment of one seed."""
    arms = [Arm(variant) for variant in config.variants]
    return run_days(config, unit.seed, arms, config.days, bench)


def summarise(config: OnlineModelsConfig, tables: Tables) -> Summary:
    """Pool over days and seeds, and set Table 1 beside the paper's."""
    rates = Rates(tables["shown"], {ALL: range(config.days)}, config.resamples)
    shown: Tables = {
        "rates": rates.table(),
        "differences": differences(rates, "slate-gru-hier-greedy", ALL),
        "daily": daily_rates(tables["shown"]),
        "table1": _table1(rates),
    }
    return Summary(shown, list(_findings(rates)), headline="table1")


def _table1(rates: Rates) -> list[Row]:
    """One row per arm, for display."""
    return [
        {
            "algorithm": arm,
            "paper: click rate": PAPER.get(arm, ""),
            "slates": f"{rates.count(arm, ALL, 'served'):,.0f}",
            "click rate": percent(rates.rate(arm, ALL, "clicks").pooled()),
            "expected": percent(rates.rate(arm, ALL, "expected").pooled()),
        }
        for arm in rates.arms
    ]


_SLATE, _LINEAR, _FLAT, _ALL_ITEM = PAPER
_AWARE = "source-aware-gru-hier-greedy"

QUESTIONS: Final = (
    ArmQuestion(
        "Does the all-item likelihood have a higher click rate than the slate likelihood?",
        *(_ALL_ITEM, _SLATE, "above", "17.0 % against 15.6 %"),
    ),
    ArmQuestion(
        "Do GRU dynamics have a higher click rate than linear ones?",
        *(_SLATE, _LINEAR, "above", "15.6 % against 10.3 %"),
    ),
    ArmQuestion(
        "Do hierarchical priors have a higher click rate than a flat one?",
        *(_SLATE, _FLAT, "above", "15.6 % against 15.5 %"),
    ),
    ArmQuestion(
        "Does the source-aware likelihood have a higher click rate than the slate likelihood?",
        *(_AWARE, _SLATE),
    ),
    ArmQuestion(
        "Does the source-aware likelihood have a higher click rate than all-item?",
        *(_AWARE, _ALL_ITEM),
    ),
)


def _findings(rates: Rates) -> Iterator[Finding]:
    for question in QUESTIONS:
        if question.first in rates.arms and question.second in rates.arms:
            yield answer(question, rates, ALL)


STUDY: Final = Study(
    "online-models",
    "Online: model variants serve simulated users",
    OnlineModelsConfig,
    units,
    run,
    summarise,
)
