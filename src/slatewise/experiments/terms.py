"""`terms`: what each term of the utility brings, alone and with the others, world by world.

The worlds differ in what causes clicks: a term should help where its cause exists, and cost next to
nothing where it does not. `--auto` chooses terms by itself and is held against every baseline. All
are judged on a split by time, after calibration on validation users.
"""

from collections.abc import Iterator, Mapping
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
from slatewise.model.config import ModelConfig, Term
from slatewise.selection import VALIDATION_DRAWS, SelectionConfig, select
from slatewise.simulation.presets import PRESETS
from slatewise.training import TrainingConfig, fit
from slatewise.training.loop import Progress as State

BASELINES, NONE, EVIDENCE, ALL, AUTO = "baselines", "none", "evidence", "all", "auto"
TERMS: Final[tuple[str, ...]] = get_args(Term)
PARTS: Final = (NONE, *TERMS, EVIDENCE, ALL, AUTO)
MODELS: Final = {part: f"+{part}" if part in (*TERMS, EVIDENCE) else part for part in PARTS}
"""What each model is called: there is a baseline named popularity, too."""

CAUSES: Final[Mapping[str, tuple[str, ...]]] = {
    "demo": ("history", EVIDENCE),
    "demo-outside": ("bias", "history", "position", EVIDENCE),
    "news": ("bias", "history", "popularity", "propensity", "position"),
    "video": ("bias", "history", "propensity"),
}
"""What decides clicks in each world beside intent, as the simulator's page lists it; evidence has a
cause where people search for what they want."""
CHEAP: Final = 0.002
"""Nats that a term without a cause may cost."""
DATASET: Final = "dataset"


class TermsConfig(StudyConfig):
    """Settings of the study of terms."""

    worlds: tuple[str, ...] = Field(default=tuple(CAUSES), min_length=1)
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
                raise ValueError(f"there is no world '{world}', only {', '.join(CAUSES)}")
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
    """One unit for each seed, world and model, and one for the baselines of a world."""
    return [
        Unit(seed, f"{world}+{part}")
        for seed in config.seeds
        for world in config.places
        for part in (BASELINES, *PARTS)
    ]


def run(config: TermsConfig, unit: Unit, bench: Bench) -> Tables:
    """Fit and judge one model in one world, or all baselines."""
    world, _, part = unit.part.partition("+")
    dataset = dataset_of(config.of_world(world), unit.seed, bench)
    head: Row = {"seed": unit.seed, "world": world}
    tables: Tables = {"scores": [], "replicates": []}
    if part == BASELINES:
        for name, baseline in fit_baselines(dataset).items():
            _judge(config, head, name, baseline, dataset, tables)
        return tables | {"datasets": [head | dataset_row(dataset, unit.seed)]}
    model = _model(config, part, dataset)
    if part == AUTO:
        found = select(
            dataset,
            model,
            config.selection,
            training=config.training,
            seed=unit.seed,
            progress=bench.progress,
        )
        model = found.model
        tables["chosen"] = [
            head
            | {"term": t.name, "round": number, "gain": t.gain, "low": t.low, "high": t.high}
            | {"kept": t.outcome == "kept"}
            for number, t in found.last_tried()
        ]

    def observe(at: State) -> None:
        bench.progress(f"{world}, {part}, epoch {at.epoch + 1}", at.step, at.steps)

    fitted = fit(dataset, model, config.training, seed=unit.seed, observer=observe)
    _judge(config, head, MODELS[part], ModelRecommender(fitted, log=dataset), dataset, tables)
    trained = head | {"recommender": MODELS[part], "model": model.name, **fitted.metrics}
    return tables | {"training": [trained]}


def _model(config: TermsConfig, part: str, dataset: SlateDataset) -> ModelConfig:
    """Return the configuration of a model of the study; that of `--auto` is its beginning."""
    changes: dict[str, Any] = {}
    if part in TERMS:
        changes["terms"] = [part]
    if part == ALL:
        changes["terms"] = [t for t in TERMS if t != "popularity" or dataset.meta["clock_times"]]
    if part in (EVIDENCE, ALL):
        changes["evidence"] = dataset.source_names
    return ModelConfig.build({**config.model, **changes}, f"model {part}")


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
        for name in [*MODELS.values(), *judged.baselines(world)]:
            for calibrated in (False, True):
                found = judged.value(world, name, calibrated=calibrated)
                head = {"world": world, "recommender": name, "calibrated": calibrated}
                yield head | _pooled(found)


def _gains(judged: Judged) -> Iterator[Row]:
    """Yield what each model gains over the one without terms."""
    for world in judged.worlds:
        for part in PARTS[1:]:
            head = {"world": world, "model": MODELS[part], "cause": _cause(world, part)}
            yield head | _pooled(judged.gain(world, MODELS[part], NONE))


def _cause(world: str, part: str) -> bool | None:
    """Return whether a term has a cause in a world; None where nobody claims either."""
    if world in CAUSES and part in CAUSES[world]:
        return True
    return False if world in CAUSES and part in TERMS else None


def _against(judged: Judged) -> Iterator[Row]:
    """Yield what `--auto` gains over each baseline."""
    for world in judged.worlds:
        for name in judged.baselines(world):
            yield {"world": world, "baseline": name} | _pooled(judged.gain(world, AUTO, name))


def _headline(judged: Judged) -> list[Row]:
    """One row per model and baseline: gain over no terms in each world, for display."""
    names = dict.fromkeys(n for world in judged.worlds for n in judged.baselines(world))
    return [
        {"": name} | {world: _shown(judged, world, name) for world in judged.worlds}
        for name in [*(MODELS[part] for part in PARTS[1:]), *names]
    ]


def _shown(judged: Judged, world: str, name: str) -> str:
    if name not in judged.names[world]:
        return "–"
    found = judged.gain(world, name, NONE)
    return shown_interval(found.value, found.low, found.high, signed=True, decimals=3)


def _term_findings(judged: Judged) -> Iterator[Finding]:
    for world in judged.worlds:
        for term in (*TERMS, EVIDENCE):
            found = judged.gain(world, MODELS[term], NONE)
            measure = f"test log-likelihood in {world}, {MODELS[term]} minus none"
            numbers = (found.value, found.low, found.high)
            cause = _cause(world, term)
            if cause or world not in CAUSES:
                question = f"Does {term} help in {world}?"
                yield Finding(question, measure, *numbers, note=found.note())
            elif cause is False:
                question = f"Without a cause in {world}, does {term} cost less than {CHEAP} nats?"
                note = found.note(-CHEAP)
                yield Finding(question, measure, *numbers, reference=-CHEAP, note=note)


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
