"""`terms`: what each term of the utility brings, alone and with the others, world by world.

The worlds differ in what causes clicks: a term should help where its cause exists, and cost next to
nothing where it does not. Whether it exists is no matter of opinion: the simulator says what one
would lose who knew everything else (`worth`). `--auto` chooses terms by itself and is held against
every baseline. All are judged on a split by time, after calibration on validation users.
"""

from typing import Any, Final, Self

from pydantic import Field, PositiveInt, model_validator

from slatewise.config import require_known
from slatewise.data.dataset import SlateDataset
from slatewise.data.split import SplitConfig
from slatewise.evaluation import (
    Calibration,
    LogLikelihood,
    ModelRecommender,
    Predictor,
    bootstrap,
    fit_baselines,
    predict_part,
)
from slatewise.evaluation.panel import ALL as ALL_SOURCES
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Bench, Study, StudyConfig, Summary, Unit
from slatewise.experiments.term_gains import (
    ALL,
    AUTO,
    EVIDENCE,
    MODELS,
    PARTS,
    TERMS,
    TermScores,
    summary_of,
)
from slatewise.experiments.worlds import dataset_of, dataset_row
from slatewise.experiments.worth import worth_of_causes
from slatewise.features.item_columns import Kind
from slatewise.model.config import ModelConfig
from slatewise.model.item_features import ItemFeatures
from slatewise.model.registry import TERMS as REGISTERED
from slatewise.model.terms.network import NetworkTerm
from slatewise.selection import FEATURES, ModelChoice, SelectionConfig, select
from slatewise.simulation.presets import PRESETS
from slatewise.training import TrainingConfig, fit
from slatewise.training.loop import Progress as State
from slatewise.training.unused import training_of, without_unused

BASELINES, WORTH = "baselines", "worth"
WORLDS: Final = ("demo", "demo-outside", "news", "video")
DATASET: Final = "dataset"


class TermsConfig(StudyConfig):
    """Settings of the study of terms."""

    worlds: tuple[str, ...] = Field(default=WORLDS, min_length=1)
    """Simulated worlds: presets, with -outside for the other truth."""
    users: PositiveInt = 2_000
    """People in each simulated world."""
    split: SplitConfig = SplitConfig(method="time", valid_share=0.1, test_share=0.1)
    """By time: no item bias has seen what it is judged on."""
    training: TrainingConfig = TrainingConfig(batch_users=128)
    """How all models are fitted; an epoch of a few large batches would be too coarse to stop by."""
    selection: SelectionConfig = SelectionConfig()
    """The budget of `--auto`."""
    resamples: PositiveInt = 1_000
    """Resamples of users behind every interval."""

    @model_validator(mode="after")
    def _worlds(self) -> Self:
        if {"preset", "truth"} & self.model_fields_set:
            raise ValueError("this study has worlds of its own: name them as worlds")
        require_known((one.removesuffix("-outside") for one in self.worlds), PRESETS, "world")
        return self

    @property
    def datasets(self) -> tuple[str, ...]:
        """The worlds, or the one dataset instead."""
        return self.worlds if self.dataset is None else (DATASET,)

    def of_world(self, world: str) -> StudyConfig:
        """Return what makes the dataset of a world."""
        if world == DATASET:
            return self
        truth = "outside" if world.endswith("-outside") else None
        changes = {
            "preset": world.removesuffix("-outside"),
            "truth": truth,
            "simulation": {"users": self.users} | self.simulation,
        }
        return self.model_copy(update=changes)


def units(config: TermsConfig) -> list[Unit]:
    """One unit for each seed, world and model, one for the baselines and one for what causes are
    worth.
    """
    return [
        Unit(seed, f"{world}+{part}")
        for seed in config.seeds
        for world in config.datasets
        for part in _parts(config, world)
    ]


def _parts(config: TermsConfig, world: str) -> list[str]:
    """Return what is run in a world: features only where its simulator writes any."""
    if world == DATASET:
        return [BASELINES, *(part for part in PARTS if part != FEATURES)]
    features = config.of_world(world).simulated(config.seeds[0]).features
    models = [p for p in PARTS if p != FEATURES or features.of_vector or features.of_quality]
    return [BASELINES, WORTH, *models]


def run(config: TermsConfig, unit: Unit, bench: Bench) -> Tables:
    """Fit and judge one model in one world, or all baselines; or ask what causes are worth."""
    world, _, part = unit.part.partition("+")
    world_config = config.of_world(world)
    dataset = dataset_of(world_config, unit.seed, bench)
    head: Row = {"seed": unit.seed, "world": world}
    tables: Tables = {"scores": [], "replicates": []}
    if part == WORTH:
        found = worth_of_causes(world_config.simulated(unit.seed), dataset)
        return {"worths": [head | {"term": term, "worth": found[term]} for term in found]}
    if part == BASELINES:
        for name, baseline in fit_baselines(dataset).items():
            _judge(config, head, name, baseline, dataset, tables)
        return tables | {"datasets": [head | dataset_row(dataset, unit.seed)]}
    features = _features(dataset)
    choice = _choice(config, part, dataset, features)
    if part == AUTO:
        chosen = select(
            dataset,
            choice.model,
            config.selection,
            training=config.training,
            item_features=features,
            seed=unit.seed,
            progress=bench.progress,
        )
        choice = chosen.choice
        tables["chosen"] = [
            head | {"term": t.name, "gain": t.gain, "low": t.low, "high": t.high, "kept": t.kept}
            for t in chosen.results
        ]

    def observe(at: State) -> None:
        bench.progress(f"{world}, {part}, epoch {at.epoch + 1}", at.step, at.steps)

    fitted = fit(
        dataset,
        choice.model,
        training_of(choice.model, config.training),
        seed=unit.seed,
        item_features=features if choice.described else None,
        observer=observe,
    )
    _judge(config, head, MODELS[part], ModelRecommender(fitted, log=dataset), dataset, tables)
    trained = head | {"recommender": MODELS[part], "model": choice.name, **fitted.metrics}
    if part == NetworkTerm.name:
        network = fitted.terms.by_name[part]
        assert isinstance(network, NetworkTerm)
        tables["network"] = [head | row for row in network.learned(dataset)]
    return tables | {"training": [trained]}


def _features(dataset: SlateDataset) -> ItemFeatures | None:
    """Read the numbers that a simulated items table tells of items, if it does."""
    kinds: dict[str, Kind] = {
        name: "number" for name in dataset.items.columns if name.startswith("feature_")
    }
    return ItemFeatures.read(dataset, dataset.path / "items.parquet", kinds) if kinds else None


def _choice(
    config: TermsConfig, part: str, dataset: SlateDataset, features: ItemFeatures | None
) -> ModelChoice:
    """Return what a model of the study has; that of `--auto` is its beginning."""
    changes: dict[str, Any] = {}
    if part in TERMS:
        changes["terms"] = [part]
    if part == FEATURES:
        changes["terms"] = ["bias"]
    if part == ALL:
        changes["terms"] = [t for t in TERMS if REGISTERED[t].obstacle(dataset) is None]
    if part in (EVIDENCE, ALL):
        changes["evidence"] = dataset.source_names
    model = ModelConfig.build({**config.model, **changes}, f"model {part}")
    described = part in (FEATURES, ALL) and features is not None
    return ModelChoice(without_unused(model, item_features=described), described)


def _judge(
    config: TermsConfig,
    head: Row,
    name: str,
    recommender: Predictor,
    dataset: SlateDataset,
    tables: Tables,
) -> None:
    """Add the test log-likelihood of a recommender, as it is and calibrated."""
    sources = dataset.source_names
    calibration = Calibration.fit(predict_part(recommender, dataset, "validation"), sources)
    test = predict_part(recommender, dataset, "test")
    seed = head["seed"] if config.dataset is None else 0
    for calibrated, predictions in ((False, test), (True, calibration.apply(test, sources))):
        found = bootstrap(LogLikelihood(), predictions, seed=seed, resamples=config.resamples)
        about = head | {"recommender": f"{head['world']}/{name}", "calibrated": calibrated}
        about["metric"] = "log_likelihood"
        tables["scores"].append(about | {"source": ALL_SOURCES, **found.to_json()})
        tables["replicates"].append(about | {"values": found.replicates.tolist()})


def summarise(config: TermsConfig, tables: Tables) -> Summary:
    """Pool over seeds; compare terms with none, and `--auto` with the baselines."""
    return summary_of(TermScores(tables, config.datasets, same_users=config.dataset is not None))


STUDY: Final = Study(
    "terms",
    "Terms of the utility: what each brings, world by world",
    TermsConfig,
    units,
    run,
    summarise,
)
