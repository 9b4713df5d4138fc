"""`exposure`: which likelihood and which terms make better slates, by what filled the log.

A log is made of searches and of recommendations, and these come from somewhere: drawn at random,
one promoted carousel for all, or an earlier model (a feedback loop). For every kind and every share
of search a world of its own fills a window of log; every model learns from it, and its greedy
slates are judged by their exact click probabilities for all users of the next day, without being
shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
from pydantic import Field, model_validator

from slatewise.config import require_known
from slatewise.experiments.comparison import compare_arms, finding
from slatewise.experiments.findings import Finding
from slatewise.experiments.model_policy import ModelPolicy, ServedModel
from slatewise.experiments.online import OnlineConfig
from slatewise.experiments.platform import Platform, ServingPolicy
from slatewise.experiments.rates import Rates, pooled_row
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Bench, Study, Summary, Unit
from slatewise.model.config import ModelConfig
from slatewise.slates.strategies import Greedy
from slatewise.training import fit
from slatewise.training.unused import training_of, without_unused

SLATE, ALL_ITEM, AWARE = "slate", "all-item", "source-aware"
BIAS: Final[Mapping[str, Any]] = {"terms": ["bias"]}
SEARCH: Final[Mapping[str, Any]] = {"evidence": ["search"]}
MODELS: Final[Mapping[str, Mapping[str, Any]]] = {
    SLATE: {"likelihood": SLATE},
    ALL_ITEM: {"likelihood": ALL_ITEM},
    AWARE: {"likelihood": AWARE},
    "slate+bias": {"likelihood": SLATE, **BIAS},
    "slate+search": {"likelihood": SLATE, **SEARCH},
    "source-aware+bias": {"likelihood": AWARE, **BIAS},
    "source-aware+search": {"likelihood": AWARE, **SEARCH},
    "source-aware+bias+search": {"likelihood": AWARE, **BIAS, **SEARCH},
}
"""Likelihoods, an item bias, and slates of search without a click as evidence."""
COMPARED: Final = (
    (ALL_ITEM, SLATE),
    (AWARE, SLATE),
    (AWARE, ALL_ITEM),
    ("slate+bias", SLATE),
    ("slate+search", SLATE),
    ("source-aware+bias", AWARE),
    ("source-aware+search", AWARE),
    ("source-aware+bias+search", AWARE),
)
KINDS: Final = ("random", "promoted", "feedback")
ROUNDS: Final = 3
"""A feedback loop: the first third of the log is random, each further one is by a model of all
before it."""


class ExposureConfig(OnlineConfig):
    """Settings of the study of exposure."""

    kinds: tuple[str, ...] = Field(default=KINDS, min_length=1)
    """What fills the recommendation slates of the log."""
    shares: tuple[float, ...] = Field(default=(0.8, 0.5, 0.2), min_length=1)
    """Shares of search in the log, each in a world of its own."""
    models: tuple[str, ...] = Field(default=tuple(MODELS), min_length=1)
    """Models to compare."""
    users: int | None = Field(default=800, gt=0)
    """People on the platform at any time."""
    simulation: dict[str, Any] = Field(default={"catalogue": {"items": 1_000, "groups": 25}})
    """Further settings of the simulator, over those of the preset."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        for what, names, known in (
            ("kind", self.kinds, KINDS),
            ("model", self.models, tuple(MODELS)),
        ):
            require_known(names, known, what)
        if not all(0 < share < 1 for share in self.shares):
            raise ValueError("a share of search lies between 0 and 1")
        return self


def units(config: ExposureConfig) -> list[Unit]:
    """One unit for each seed, kind of recommendation slate and share of search."""
    return [
        Unit(seed, f"{kind}-{share:g}")
        for seed in config.seeds
        for kind in config.kinds
        for share in config.shares
    ]


def run(config: ExposureConfig, unit: Unit, bench: Bench) -> Tables:
    """Fill a log, and judge what every model makes of it."""
    kind, _, share = unit.part.partition("-")
    changes = {"search_share": float(share)}
    world = config.simulated(unit.seed).model_copy(update=changes)
    platform = Platform(config, world, days=1, arms=1, folder=bench.scratch)
    fill_log(config, platform, kind, unit.seed, bench)
    dataset = platform.log.dataset(day=0)
    head = {"seed": unit.seed, "kind": kind, "search_share": float(share)}
    rows = []
    for number, name in enumerate(config.models):
        bench.progress(f"seed {unit.seed}, {unit.part}", number, len(config.models))
        spec = _model(config, name)
        model = fit(dataset, spec, training_of(spec, config.training), seed=unit.seed)
        served = ServedModel(model, dataset, platform)
        who, expected = platform.judge(ModelPolicy(served, Greedy(), world.max_slate), day=0)
        rows.append(head | {"arm": name, "users": who, "expected": expected.round(6)})
    return {"judged": rows}


def _model(config: ExposureConfig, name: str) -> ModelConfig:
    model = ModelConfig.build({**config.model, **MODELS[name]}, f"model {name}")
    return without_unused(model, item_features=False)


def fill_log(
    config: ExposureConfig, platform: Platform, kind: str, seed: int, bench: Bench
) -> None:
    """Fill a window of log; in a feedback loop models fill the later part of it."""
    if kind != "feedback":
        platform.warm_up(kind)
        return
    starts = np.linspace(-config.window, 0, ROUNDS + 1).round().astype(int).tolist()
    policy: ServingPolicy = platform.usual("random")
    k = platform.market.config.max_slate
    for first, end in pairwise(starts):
        if first > starts[0]:
            bench.progress(f"seed {seed}, loop", first - starts[0], -starts[0])
            log = platform.log.dataset(first)
            spec = _model(config, SLATE)
            earlier = fit(log, spec, training_of(spec, config.training), seed=seed)
            policy = ModelPolicy(ServedModel(earlier, log, platform), Greedy(), k)
        for day in range(first, end):
            platform.day(day, [policy])


def summarise(config: ExposureConfig, tables: Tables) -> Summary:
    """Compare models for every kind of slate, over all shares and share by share."""
    found = Cells(config, tables["judged"])
    shown: Tables = {
        "rates": list(found.rates()),
        "differences": list(found.differences()),
        "headline": found.headline(),
    }
    return Summary(shown, list(found.findings()), headline="headline")


class Cells:
    """Click rates by kind, share and model."""

    def __init__(self, config: ExposureConfig, judged: Sequence[Row]) -> None:
        self._kinds, self._shares, self._models = config.kinds, config.shares, config.models
        index = {
            (kind, share): number
            for number, (kind, share) in enumerate(
                (kind, share) for kind in config.kinds for share in config.shares
            )
        }
        shown = [
            row
            | {
                "day": index[row["kind"], row["search_share"]],
                "slates": [1] * len(row["users"]),
                **dict.fromkeys(("served", "clicks"), [0] * len(row["users"])),
            }
            for row in judged
        ]
        periods = {f"{kind} {share:g}": [index[kind, share]] for kind, share in index}
        periods |= {kind: [index[kind, share] for share in config.shares] for kind in config.kinds}
        self._rates = Rates(shown, periods, config.resamples)
        self._compared = [
            pair for pair in COMPARED if pair[0] in config.models and pair[1] in config.models
        ]

    def _cells(self) -> Iterator[tuple[str, float | None, str]]:
        """Yield kind, share (None for all together) and the name of the period."""
        for kind in self._kinds:
            yield kind, None, kind
            for share in self._shares:
                yield kind, share, f"{kind} {share:g}"

    def rates(self) -> Iterator[Row]:
        """Yield the click rate of every model."""
        for kind, share, period in self._cells():
            for model in self._models:
                head = {"kind": kind, "search_share": share, "model": model}
                yield head | pooled_row(self._rates.rate(model, period).pooled())

    def differences(self) -> Iterator[Row]:
        """Yield the comparisons of the findings, share by share as well."""
        for kind, share, period in self._cells():
            for first, second in self._compared:
                head = {"kind": kind, "search_share": share, "first": first, "second": second}
                found, seen = compare_arms(self._rates, first, second, period)
                yield head | pooled_row(found) | asdict(seen)

    def headline(self) -> list[Row]:
        """One row per model: the click rate under each kind, over all shares, for display."""
        return [
            {"model": model}
            | {
                kind: f"{100 * self._rates.rate(model, kind).pooled().value:.1f} %"
                for kind in self._kinds
            }
            for model in self._models
        ]

    def findings(self) -> Iterator[Finding]:
        """Compare under each kind, over all shares."""
        for kind in self._kinds:
            for first, second in self._compared:
                yield finding(
                    f"With {kind} recommendations in the log, does {first} make better slates "
                    f"than {second}?",
                    f"exact click rate of greedy slates, {first} minus {second}, {kind}",
                    compare_arms(self._rates, first, second, kind),
                )


STUDY: Final = Study(
    "exposure",
    "Exposure: likelihoods, bias and search evidence by what filled the log",
    ExposureConfig,
    units,
    run,
    summarise,
)
