"""`terms`: what each term of the utility brings, alone and with the others, world by world.

The worlds differ in what causes clicks: a term should help where its cause exists, and cost next to
nothing where it does not. Whether it exists is no matter of opinion: the simulator says what one
would lose who knew everything else (`worth`). `--auto` chooses terms by itself and is held against
every baseline. All are judged on a split by time, after calibration on validation users.
"""

from collections.abc import Iterator
from typing import Any, Final, Self, get_args

from pydantic import Field, PositiveInt, model_validator

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
from slatewise.experiments.findings import Finding, shown_interval
from slatewise.experiments.offline import Key, Scores
from slatewise.experiments.pooling import Pooled
from slatewise.experiments.storing import Row, Tables
from slatewise.experiments.study import Bench, Study, StudyConfig, Summary, Unit
from slatewise.experiments.worlds import dataset_of, dataset_row
from slatewise.experiments.worth import worth_of_causes
from slatewise.features.item_columns import Kind
from slatewise.model.config import ModelConfig, Term
from slatewise.model.item_features import ItemFeatures
from slatewise.selection import FEATURES, VALIDATION_DRAWS, Choice, SelectionConfig, select
from slatewise.simulation.presets import PRESETS
from slatewise.training import TrainingConfig, fit
from slatewise.training.loop import Progress as State

BASELINES, WORTH, NONE, ALL, AUTO = "baselines", "worth", "none", "all", "auto"
EVIDENCE: Final = "evidence"
TERMS: Final[tuple[str, ...]] = get_args(Term)
ALONE: Final = (*TERMS, FEATURES, EVIDENCE)
"""What is tried alone; features stand in the prior of vectors and biases, so with a bias."""
PARTS: Final = (NONE, *ALONE, ALL, AUTO)
MODELS: Final = {part: f"+{part}" if part in ALONE else part for part in PARTS}
"""What each model is called: there is a baseline named popularity, too."""

WORLDS: Final = ("demo", "demo-outside", "news", "video")
LEAST: Final = 0.002
"""Nats that a cause is worth at least to count as one, and that a term without one may cost."""
DATASET: Final = "dataset"


class TermsConfig(StudyConfig):
    """Settings of the study of terms."""

    worlds: tuple[str, ...] = Field(default=WORLDS, min_length=1)
    """Simulated worlds: presets, with -outside for the other truth."""
    users: PositiveInt = 2_000
    """People in each simulated world."""
    split: SplitConfig = SplitConfig(method="time", valid_share=0.1, test_share=0.1)
    """By time: no item bias has seen what it is judged on."""
    training: TrainingConfig = TrainingConfig(batch_users=128, validation_draws=VALIDATION_DRAWS)
    """How all models are fitted; an epoch of a few large batches would be too coarse to stop by."""
    selection: SelectionConfig = SelectionConfig()
    """The budget of `--auto`."""
    resamples: PositiveInt = 1_000
    """Resamples of users behind every interval."""

    @model_validator(mode="after")
    def _worlds(self) -> Self:
        if {"preset", "truth"} & self.model_fields_set:
            raise ValueError("this study has worlds of its own: name them as worlds")
        for world in self.worlds:
            if world.removesuffix("-outside") not in PRESETS:
                raise ValueError(f"there is no world '{world}', only {', '.join(PRESETS)}")
        return self

    @property
    def places(self) -> tuple[str, ...]:
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
        for world in config.places
        for part in _parts(config, world)
    ]


def _parts(config: TermsConfig, world: str) -> list[str]:
    """Return what is run in a world: features only where its simulator writes any."""
    if world == DATASET:
        return [BASELINES, *(part for part in PARTS if part != FEATURES)]
    told = config.of_world(world).simulated(config.seeds[0]).features
    models = [p for p in PARTS if p != FEATURES or told.of_vector or told.of_quality]
    return [BASELINES, WORTH, *models]


def run(config: TermsConfig, unit: Unit, bench: Bench) -> Tables:
    """Fit and judge one model in one world, or all baselines; or ask what causes are worth."""
    world, _, part = unit.part.partition("+")
    place = config.of_world(world)
    dataset = dataset_of(place, unit.seed, bench)
    head: Row = {"seed": unit.seed, "world": world}
    tables: Tables = {"scores": [], "replicates": []}
    if part == WORTH:
        found = worth_of_causes(place.simulated(unit.seed), dataset)
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
            head
            | {"term": t.name, "round": number, "gain": t.gain, "low": t.low, "high": t.high}
            | {"kept": t.outcome == "kept"}
            for number, t in chosen.last_tried()
        ]

    def observe(at: State) -> None:
        bench.progress(f"{world}, {part}, epoch {at.epoch + 1}", at.step, at.steps)

    fitted = fit(
        dataset,
        choice.model,
        config.training,
        seed=unit.seed,
        item_features=features if choice.described else None,
        observer=observe,
    )
    _judge(config, head, MODELS[part], ModelRecommender(fitted, log=dataset), dataset, tables)
    trained = head | {"recommender": MODELS[part], "model": choice.name, **fitted.metrics}
    return tables | {"training": [trained]}


def _features(dataset: SlateDataset) -> ItemFeatures | None:
    """Read the numbers that a simulated items table tells of items, if it does."""
    kinds: dict[str, Kind] = {
        name: "number" for name in dataset.items.columns if name.startswith("feature_")
    }
    return ItemFeatures.read(dataset, dataset.path / "items.parquet", kinds) if kinds else None


def _choice(
    config: TermsConfig, part: str, dataset: SlateDataset, features: ItemFeatures | None
) -> Choice:
    """Return what a model of the study has; that of `--auto` is its beginning."""
    changes: dict[str, Any] = {}
    if part in TERMS:
        changes["terms"] = [part]
    if part == FEATURES:
        changes["terms"] = ["bias"]
    if part == ALL:
        changes["terms"] = [t for t in TERMS if t != "popularity" or dataset.meta["clock_times"]]
    if part in (EVIDENCE, ALL):
        changes["evidence"] = dataset.source_names
    model = ModelConfig.build({**config.model, **changes}, f"model {part}")
    return Choice(model, part in (FEATURES, ALL) and features is not None)


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


class Judged:
    """The calibrated test log-likelihoods of all seeds, world by world."""

    def __init__(self, config: TermsConfig, tables: Tables) -> None:
        self._scores = Scores(tables, same_users=config.dataset is not None)
        self.worlds = config.places
        known = {key.recommender for key in self._scores.keys}
        self.names = {
            world: [name.partition("/")[2] for name in known if name.startswith(f"{world}/")]
            for world in self.worlds
        }
        worths: dict[tuple[str, str], list[float]] = {}
        for row in tables.get("worths", []):
            worths.setdefault((row["world"], row["term"]), []).append(row["worth"])
        self._worths = {key: sum(found) / len(found) for key, found in worths.items()}

    def worth(self, world: str, part: str) -> float | None:
        """Return what the cause of a term is worth, over all seeds; None where nobody knows."""
        return self._worths.get((world, part))

    def models(self, world: str) -> list[str]:
        """Return the parts of a world that were fitted, but for the one without terms."""
        return [part for part in PARTS[1:] if MODELS[part] in self.names[world]]

    def value(self, world: str, name: str, *, calibrated: bool = True) -> Pooled:
        """Pool over seeds."""
        return self._scores.pooled(_key(world, name, calibrated=calibrated))

    def gain(self, world: str, first: str, second: str) -> Pooled:
        """Pool the paired differences."""
        found = self._scores.difference(_key(world, first), _key(world, second))
        if found is None:
            raise KeyError(f"{first} or {second} in {world}")
        return found

    def baselines(self, world: str) -> list[str]:
        """Return the baselines of a world, best first."""
        found = [name for name in self.names[world] if name not in MODELS.values()]
        return sorted(found, key=lambda name: -self.value(world, name).value)


def _key(world: str, name: str, *, calibrated: bool = True) -> Key:
    return Key(f"{world}/{name}", "log_likelihood", calibrated)


def summarise(config: TermsConfig, tables: Tables) -> Summary:
    """Pool over seeds; compare terms with none, and `--auto` with the baselines."""
    judged = Judged(config, tables)
    shown: Tables = {
        "likelihoods": list(_likelihoods(judged)),
        "gains": list(_gains(judged)),
        "against": list(_against(judged)),
        "headline": _headline(judged),
    }
    return Summary(shown, [*_term_findings(judged), *_auto_findings(judged)], headline="headline")


def _pooled(found: Pooled) -> Row:
    return {"value": found.value, "low": found.low, "high": found.high, "by_seed": found.by_seed}


def _likelihoods(judged: Judged) -> Iterator[Row]:
    for world in judged.worlds:
        models = [MODELS[part] for part in judged.models(world)]
        for name in [NONE, *models, *judged.baselines(world)]:
            for calibrated in (False, True):
                found = judged.value(world, name, calibrated=calibrated)
                head = {"world": world, "recommender": name, "calibrated": calibrated}
                yield head | _pooled(found)


def _gains(judged: Judged) -> Iterator[Row]:
    """Yield what each model gains over the one without terms."""
    for world in judged.worlds:
        for part in judged.models(world):
            worth = judged.worth(world, part)
            head = {"world": world, "model": MODELS[part], "worth": worth}
            yield head | {"cause": _counts(worth)} | _pooled(judged.gain(world, MODELS[part], NONE))


def _counts(worth: float | None) -> bool | None:
    """Say whether a cause is one; None where nobody knows."""
    return None if worth is None else worth >= LEAST


def _against(judged: Judged) -> Iterator[Row]:
    """Yield what `--auto` gains over each baseline."""
    for world in judged.worlds:
        for name in judged.baselines(world):
            yield {"world": world, "baseline": name} | _pooled(judged.gain(world, AUTO, name))


def _headline(judged: Judged) -> list[Row]:
    """One row per model and baseline: gain over no terms in each world, for display."""
    models = dict.fromkeys(part for world in judged.worlds for part in judged.models(world))
    shown = [MODELS[part] for part in PARTS if part in models]
    names = dict.fromkeys(n for world in judged.worlds for n in judged.baselines(world))
    return [
        {"": name} | {world: _shown(judged, world, name) for world in judged.worlds}
        for name in [*shown, *names]
    ]


def _shown(judged: Judged, world: str, name: str) -> str:
    """Show a gain and, in brackets, what the cause behind it is worth."""
    if name not in judged.names[world]:
        return "–"
    found = judged.gain(world, name, NONE)
    gain = shown_interval(found.value, found.low, found.high, signed=True, decimals=3)
    worth = judged.worth(world, name.removeprefix("+")) if name in MODELS.values() else None
    return gain if worth is None else f"{gain} ({worth:.3f})"


def _term_findings(judged: Judged) -> Iterator[Finding]:
    for world in judged.worlds:
        for part in (part for part in judged.models(world) if part in ALONE):
            found, worth = judged.gain(world, MODELS[part], NONE), judged.worth(world, part)
            measure = f"test log-likelihood in {world}, {MODELS[part]} minus none"
            question, reference = f"Does {part} help in {world}?", 0.0
            if _counts(worth):
                question = f"Does {part} help in {world}, where its cause is worth {worth:.3f}?"
            elif worth is not None:
                question = f"Without a cause in {world}, does {part} cost less than {LEAST} nats?"
                reference = -LEAST
            yield Finding(
                question,
                measure,
                *(found.value, found.low, found.high),
                reference=reference,
                note=found.note(reference),
            )


def _auto_findings(judged: Judged) -> Iterator[Finding]:
    for world in judged.worlds:
        best = judged.baselines(world)[0]
        for other, words in ((best, f"the best baseline, {best},"), (ALL, "all terms together")):
            found = judged.gain(world, AUTO, other)
            yield Finding(
                f"Is --auto better than {words} in {world}?",
                f"test log-likelihood in {world}, --auto minus {other}",
                *(found.value, found.low, found.high),
                note=found.note(),
            )


STUDY: Final = Study(
    "terms",
    "Terms of the utility: what each brings, world by world",
    TermsConfig,
    units,
    run,
    summarise,
)
