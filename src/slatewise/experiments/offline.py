"""`offline`: the variants and the baselines on held-out interactions (Table 1, left).

Each model is judged by its closed-form prediction, as it is and after calibration by source on
validation users. Seeds are pooled as `pooling` says; two recommenders of a seed are compared on the
same users with the same resamples.
"""

from typing import Any, Final, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from slatewise.config import SettingError, read_toml, require_known
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation import (
    Evaluation,
    ModelRecommender,
    Predictor,
    calibrate,
    evaluate,
    fit_baselines,
)
from slatewise.evaluation.baselines.registry import require_baselines
from slatewise.evaluation.panel import ALL
from slatewise.experiments.offline_summary import summarise
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Bench, Study, StudyConfig, Unit
from slatewise.experiments.variants import (
    VARIANTS,
    fit_variant,
    require_use,
    unknown_exposure,
    variant_config,
)
from slatewise.experiments.worlds import dataset_of, dataset_row
from slatewise.model.config import ModelConfig
from slatewise.plugins import is_import_path

BASELINES: Final = "baselines"

CURVE: Final = ("stage", "epoch", "validation", "rate")
"""What is kept of each epoch of training."""


class OfflineConfig(StudyConfig):
    """Settings of the offline study."""

    variants: tuple[str, ...] = Field(default=tuple(VARIANTS), min_length=1)
    """Models to compare, beside those in `models`."""
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
        """Read the files now, so that a resumed study keeps the settings it began with."""
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
            require_known(self.names, known, "variant")
            for name in self.names:
                self.variant(name)
            require_use(self.model, self.names, known)
        except SlatewiseError as error:
            raise SettingError.of(error) from error
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


STUDY: Final = Study(
    "offline",
    "Offline: model variants on held-out interactions",
    OfflineConfig,
    units,
    run,
    summarise,
)
