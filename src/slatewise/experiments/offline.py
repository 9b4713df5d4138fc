"""`offline`: the variants and the baselines on held-out interactions (Table 1, left).

Each model is judged by its closed-form prediction, as it is and after calibration by source on
validation users. Seeds are pooled as `pooling` says; two recommenders of a seed are compared on the
same users with the same resamples.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np
from pydantic import Field, PositiveInt, field_validator, model_validator

from slatewise.config import read_toml
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation import (
    Estimate,
    Evaluation,
    ModelRecommender,
    Predictor,
    calibrate,
    evaluate,
    fit_baselines,
)
from slatewise.evaluation.baselines.registry import require_baselines
from slatewise.evaluation.panel import ALL
from slatewise.experiments.findings import Direction, Finding, shown_interval
from slatewise.experiments.pooling import PooledEstimate, pool
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Bench, Study, StudyConfig, Summary, Unit
from slatewise.experiments.variants import VARIANTS, fit_variant, unknown_exposure, variant_config
from slatewise.experiments.worlds import dataset_of, dataset_row
from slatewise.model.config import ModelConfig
from slatewise.plugins import is_import_path

BASELINES: Final = "baselines"

CURVE: Final = ("stage", "epoch", "validation", "rate")
"""What is kept of each epoch of training."""

PAPER: Final = {
    "slate-gru-hier": ("−4.96e7", "0.105"),
    "slate-linear-hier": ("−4.98e7", "0.149"),
    "slate-gru-flat": ("−4.97e7", "0.0988"),
    "all-item-gru-hier": ("−2.81e7", "0.125"),
}
"""Test log-likelihood and hitrate@20 of Table 1."""


class OfflineConfig(StudyConfig):
    """Settings of the offline study."""

    variants: tuple[str, ...] = Field(default=tuple(VARIANTS), min_length=1)
    """The models that are compared, those in `models` among them or not."""
    models: dict[str, dict[str, Any] | str] = Field(default={})
    """Models of your own by name: settings, a TOML file, or the import path of a ModelConfig."""
    against: tuple[str, ...] = ()
    """Import paths of baselines to add, or names of those built-in baselines to keep."""
    k: PositiveInt = 20
    """Length of recommended lists."""
    resamples: PositiveInt = 1_000
    """Resamples of users behind every interval."""

    @field_validator("models")
    @classmethod
    def _read(cls, models: dict[str, dict[str, Any] | str]) -> dict[str, dict[str, Any] | str]:
        """Read the files now: a study goes on with the settings that it began with."""
        for name, given in models.items():
            if name in VARIANTS:
                raise ValueError(f"there is a variant '{name}' already")
            if isinstance(given, str) and not is_import_path(given):
                values = read_toml(given)
                models[name] = values.get("model", values)
        return models

    @model_validator(mode="after")
    def _known(self) -> Self:
        known = {**VARIANTS, **self.models}
        try:
            require_baselines(self.against)
            for name in self.names:
                if name not in known:
                    raise ValueError(f"there is no variant '{name}', only {', '.join(known)}")
                self.variant(name)
        except SlatewiseError as error:
            raise ValueError(error.problem.rstrip(".")) from error
        return self

    @property
    def names(self) -> list[str]:
        """The names of all models that are compared."""
        return list(dict.fromkeys([*self.variants, *self.models]))

    def variant(self, name: str) -> ModelConfig:
        """Return the configuration of a model by its name."""
        return variant_config(name, self.model, {**VARIANTS, **self.models})


def units(config: OfflineConfig) -> list[Unit]:
    """One unit for each seed and variant, and one for the baselines of a seed."""
    parts = (BASELINES, *config.names)
    return [Unit(seed, part) for seed in config.seeds for part in parts]


def run(config: OfflineConfig, unit: Unit, bench: Bench) -> Tables:
    """Fit and judge one variant, or all baselines."""
    dataset = dataset_of(config, unit.seed, bench)
    if unit.part == BASELINES:
        tables = _judged(config, unit, dataset, fit_baselines(dataset, config.against), bench)
        return tables | {"dataset": [dataset_row(dataset, unit.seed)]}
    model = config.variant(unit.part)
    if unknown := unknown_exposure(model, dataset):
        why = f"no slate comes from {' or '.join(map(repr, unknown))}"
        return {"left_out": [{"seed": unit.seed, "recommender": unit.part, "why": why}]}
    fitted = fit_variant(unit.part, model, config, dataset, unit.seed, bench)
    recommender = ModelRecommender(fitted, log=dataset)
    tables = _judged(config, unit, dataset, {unit.part: recommender}, bench)
    head = {"seed": unit.seed, "recommender": unit.part}
    curve = [head | {name: epoch[name] for name in CURVE} for epoch in fitted.history]
    return tables | {"training": [head | fitted.metrics], "curves": curve}


def _judged(
    config: OfflineConfig,
    unit: Unit,
    dataset: SlateDataset,
    recommenders: dict[str, Predictor],
    bench: Bench,
) -> Tables:
    tables: Tables = {"scores": [], "replicates": [], "reliability": []}
    for name, recommender in recommenders.items():
        found = evaluate(
            recommender,
            dataset,
            k=config.k,
            # Worlds are independent, and so must be their resamples; one dataset has one sample.
            seed=unit.seed if config.dataset is None else 0,
            resamples=config.resamples,
            calibration=calibrate(recommender, dataset),
            progress=bench.progress,
        )
        for evaluation, calibrated in ((found, False), (found.calibrated, True)):
            if evaluation is not None:
                head = {"seed": unit.seed, "recommender": name, "calibrated": calibrated}
                _add(tables, head, evaluation)
    return tables


def _add(tables: Tables, head: Row, evaluation: Evaluation) -> None:
    for metric, sources in evaluation.estimates.items():
        for source, estimate in sources.items():
            tables["scores"].append(
                {**head, "metric": metric, "source": source, **estimate.to_json()}
            )
        values = sources[ALL].replicates.tolist()
        tables["replicates"].append({**head, "metric": metric, "values": values})
    for source, curve in evaluation.reliability.items():
        tables["reliability"] += [{**head, "source": source, **row} for row in curve]


class Key(NamedTuple):
    """What was measured of what."""

    recommender: str
    metric: str
    calibrated: bool = False


class Scores:
    """The values and resamples of all seeds, to be pooled and compared."""

    def __init__(self, tables: Tables, *, same_users: bool) -> None:
        self._same_users = same_users
        self._values: dict[Key, dict[int, float]] = {}
        self._resamples: dict[Key, dict[int, Any]] = {}
        for row in tables["scores"]:
            if row["source"] == ALL and row["value"] is not None:
                self._values.setdefault(_key(row), {})[row["seed"]] = row["value"]
        for row in tables["replicates"]:
            resamples = [float("nan") if value is None else value for value in row["values"]]
            self._resamples.setdefault(_key(row), {})[row["seed"]] = resamples

    @property
    def keys(self) -> list[Key]:
        """Everything that has a value."""
        return list(self._values)

    def pooled(self, key: Key) -> PooledEstimate:
        """Pool one measure over the seeds that have it."""
        seeds = self._values[key]
        resamples = [self._resamples[key][seed] for seed in seeds]
        return pool(list(seeds.values()), resamples, same_users=self._same_users)

    def difference(self, first: Key, second: Key) -> PooledEstimate | None:
        """Pool the paired differences of the seeds that have both; None if none has."""
        estimates = [
            self._estimate(first, seed) - self._estimate(second, seed)
            for seed in self._values.get(first, {})
            if seed in self._values.get(second, {})
        ]
        if not estimates:
            return None
        values, resamples = [e.value for e in estimates], [e.replicates for e in estimates]
        return pool(values, resamples, same_users=self._same_users)

    def _estimate(self, key: Key, seed: int) -> Estimate:
        resamples = np.asarray(self._resamples[key][seed], dtype=np.float64)
        return Estimate.of(self._values[key][seed], resamples, 0, f"seed {seed}")


def _key(row: Row) -> Key:
    return Key(row["recommender"], row["metric"], row["calibrated"])


def summarise(config: OfflineConfig, tables: Tables) -> Summary:
    """Pool over seeds, set Table 1 beside the paper's, and compare."""
    scores = Scores(tables, same_users=config.dataset is not None)
    pooled = {key: scores.pooled(key) for key in scores.keys}
    rows = [
        {**key._asdict(), "value": p.value, "low": p.low, "high": p.high, "by_seed": p.by_seed}
        for key, p in pooled.items()
    ]
    findings = list(_findings(scores, config.k))
    usable = {key: found for key, found in pooled.items() if not _misleads(key, config)}
    order = sorted(
        dict.fromkeys(key.recommender for key in pooled), key=lambda name: name not in config.names
    )
    compared = _differences(scores, order, config)
    shown = {
        "differences": compared,
        "table1": [_table1(name, usable, config.k) for name in order],
        "headline": [_headline(name, usable, config.k) for name in order],
    }
    return Summary({"pooled": rows, **shown}, findings, headline="headline")


def _differences(scores: Scores, order: Sequence[str], config: OfflineConfig) -> list[Row]:
    """Compare everything with the first model on the same users: likelihood and next clicks."""
    reference = config.names[0]
    return [
        {"metric": metric, "recommender": name, "reference": reference}
        | {"value": found.value, "low": found.low, "high": found.high, "by_seed": found.by_seed}
        for metric, calibrated in (("log_likelihood", True), (f"recall@{config.k}", False))
        for name in order
        if name != reference
        and (
            found := scores.difference(
                Key(name, metric, calibrated), Key(reference, metric, calibrated)
            )
        )
    ]


def _misleads(key: Key, config: OfflineConfig) -> bool:
    """Whether a number says nothing: all-item has no P(click) of a slate before calibration."""
    if key.recommender not in config.names or key.calibrated:
        return False
    all_item = config.variant(key.recommender).likelihood == "all-item"
    return all_item and key.metric in ("log_likelihood", "ece")


def _table1(name: str, pooled: dict[Key, PooledEstimate], k: int) -> Row:
    """Return the row of a recommender, for display: the paper's two columns, then ours."""
    likelihood, hitrate = PAPER.get(name, ("", ""))
    columns: dict[str, str | tuple[str, bool]] = {
        "paper: log-likelihood": likelihood,
        "log-likelihood": ("log_likelihood", False),
        "log-likelihood, calibrated": ("log_likelihood", True),
        "paper: hitrate@20": hitrate,
        f"hitrate@{k}": (f"hitrate@{k}", False),
        f"recall@{k}": (f"recall@{k}", False),
        f"MRR@{k}": (f"mrr@{k}", False),
        "in-slate MRR": ("in_slate_mrr", False),
        "in-slate AUC": ("in_slate_auc", False),
        "ECE": ("ece", False),
        "ECE, calibrated": ("ece", True),
    }
    return {"recommender": name} | {
        column: key if isinstance(key, str) else _shown(pooled, Key(name, *key))
        for column, key in columns.items()
    }


def _headline(name: str, pooled: dict[Key, PooledEstimate], k: int) -> Row:
    """Return what fits a terminal: the paper's two metrics and next clicks, without intervals."""
    likelihood, hitrate = PAPER.get(name, ("", ""))
    columns = {
        "log-lik.": ("log_likelihood", False),
        "calibr. log-lik.": ("log_likelihood", True),
        "hitrate": (f"hitrate@{k}", False),
        "recall": (f"recall@{k}", False),
    }
    paper = {"paper: log-lik.": likelihood, "paper: hitrate": hitrate}
    return {"recommender": name, **paper} | {
        column: _shown(pooled, Key(name, *key), interval=False) for column, key in columns.items()
    }


def _shown(pooled: dict[Key, PooledEstimate], key: Key, *, interval: bool = True) -> str:
    found = pooled.get(key)
    if found is None:
        return "–"
    if interval:
        return shown_interval(found.value, found.low, found.high, decimals=3)
    return f"{found.value:.3f}".replace("-", "−")


class ModelQuestion(NamedTuple):
    """A comparison that is made wherever both sides are there."""

    text: str
    metric: str
    first: str
    second: str
    paper: Direction | None = None
    numbers: str = ""
    calibrated: bool = False


def _questions(k: int) -> Sequence[ModelQuestion]:
    slate, linear, flat, all_item = PAPER
    aware = "source-aware-gru-hier"
    likelihood, hitrate, recall = "log_likelihood", f"hitrate@{k}", f"recall@{k}"
    return (
        ModelQuestion(
            "Do GRU dynamics predict choices better than linear ones?",
            *(likelihood, slate, linear, "above", "−4.96e7 against −4.98e7"),
        ),
        ModelQuestion(
            "Do hierarchical priors predict choices better than a flat one?",
            *(likelihood, slate, flat, "above", "−4.96e7 against −4.97e7"),
        ),
        ModelQuestion(
            "Do linear dynamics have the higher hitrate?",
            *(hitrate, linear, slate, "above", "0.149 against 0.105"),
        ),
        ModelQuestion(
            "Does the all-item likelihood have a higher hitrate than the slate likelihood?",
            *(hitrate, all_item, slate, "above", "0.125 against 0.105"),
        ),
        ModelQuestion(
            "Do linear dynamics have a higher hitrate than the all-item likelihood?",
            *(hitrate, linear, all_item, "above", "0.149 against 0.125"),
        ),
        ModelQuestion(
            "Do hierarchical priors have a higher hitrate than a flat one?",
            *(hitrate, slate, flat, "above", "0.105 against 0.0988"),
        ),
        ModelQuestion(
            "Does the model predict choices better than click-through rates per item?",
            *(likelihood, slate, "smoothed CTR"),
        ),
        ModelQuestion(
            "After calibration, does the slate likelihood predict choices better than all-item?",
            *(likelihood, slate, all_item),
            calibrated=True,
        ),
        ModelQuestion(
            "After calibration, does source-aware predict choices better than slate?",
            *(likelihood, aware, slate),
            calibrated=True,
        ),
        ModelQuestion(
            "Does the all-item likelihood find more next clicks in the whole catalogue than slate?",
            *(recall, all_item, slate),
        ),
        ModelQuestion(
            "Does the source-aware likelihood find more next clicks than slate?",
            *(recall, aware, slate),
        ),
        ModelQuestion(
            "Does the all-item likelihood find more next clicks than counting co-clicks?",
            *(recall, all_item, "co-click"),
        ),
    )


def _findings(scores: Scores, k: int) -> Iterator[Finding]:
    for question in _questions(k):
        first = Key(question.first, question.metric, question.calibrated)
        second = Key(question.second, question.metric, question.calibrated)
        found = scores.difference(first, second)
        if found is not None:
            what = question.metric.replace("_", "-")
            yield Finding(
                question.text,
                f"{what}, {question.first} minus {question.second}",
                *(found.value, found.low, found.high),
                paper=question.paper,
                paper_numbers=question.numbers,
                note=found.note(),
            )


STUDY: Final = Study(
    "offline",
    "Offline: model variants on held-out interactions",
    OfflineConfig,
    units,
    run,
    summarise,
)
