"""A study: independent units, kept as they finish, gathered into tables and findings.

To add a study, write a module of this folder with

1. a configuration, a subclass of `StudyConfig` with the study's own settings;
2. `units(config)`: what has to be run, in order, as `Unit`s that do not need each other, such as
   one for each seed and model;
3. `run(config, unit, bench)`: run one unit and return its tables, each a name and a list of rows
   with plain values. The same unit gives the same rows; put no clock times into them. `bench` has
   a directory for checkpoints of a long unit, a directory shared by all studies, and progress;
4. `summarise(config, tables)`: from the rows of all units to further tables (what the report shows
   and draws) and to findings, each computed from a number with an interval;
5. `STUDY = Study(...)` of these four, and a line in `STUDIES` below; a study of another package is
   given by its import path instead.

`slatewise experiment NAME OUT` then runs and resumes it, and writes everything;
`slatewise report OUT` shows its tables, or what `report/sections/NAME.py` makes of them.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

from pydantic import Field, NonNegativeInt, field_validator, model_validator

from slatewise.config import Config, SettingError, read_toml
from slatewise.data.dataset import SlateDataset
from slatewise.data.split import SplitConfig
from slatewise.errors import SlatewiseError
from slatewise.experiments.findings import Finding
from slatewise.experiments.store import (
    FORMAT,
    VERSION,
    Store,
    StudyResult,
    Tables,
    plain,
    versions,
)
from slatewise.experiments.workers import run_in_processes
from slatewise.model.config import ModelConfig
from slatewise.plugins import is_import_path, load_object
from slatewise.simulation import SimulationConfig, load_config
from slatewise.training.config import TrainingConfig

STUDIES: Final[Mapping[str, str]] = {
    "offline": "slatewise.experiments.offline",
    "posterior": "slatewise.experiments.posterior",
    "online-models": "slatewise.experiments.online_models",
    "missing-search": "slatewise.experiments.missing_search",
    "online-strategies": "slatewise.experiments.online_strategies",
    "claims": "slatewise.experiments.claims",
    "terms": "slatewise.experiments.terms",
    "exposure": "slatewise.experiments.exposure",
    "tune": "slatewise.experiments.tuning.search",
}
"""The name of each study, and the module that has it as `STUDY`."""

Progress = Callable[[str, int, int | None], None]
"""Called with a stage, how much of it is done, and how much there is, if known."""


SideBySide = Callable[[Callable[["Unit"], None], Sequence["Unit"], int, Callable[[], None]], None]
"""Works on all units, `jobs` at a time, and calls after each; see `run_in_processes`."""


Each = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Does some work on each of a list of tasks and returns the results in their order."""


def in_turn(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Do some work on one task after the other."""
    return [work(task) for task in tasks]


def _silent(stage: str, done: int, total: int | None) -> None:
    """Ignore progress."""


class StudyConfig(Config):
    """Settings of every study; a study adds its own."""

    seeds: tuple[NonNegativeInt, ...] = Field(default=(0, 1, 2), min_length=1)
    """Repetitions: each another simulated world or, on a dataset, another start of training."""
    preset: str = "demo"
    """Simulated world."""
    truth: str | None = None
    """How simulated users choose: `paper` or `outside`; if not set, as the preset has it."""
    dataset: Path | None = None
    """A prepared dataset instead of the simulator."""
    simulation: dict[str, Any] = Field(default={})
    """Further settings of the simulator."""
    split: SplitConfig = SplitConfig(valid_share=0.1, test_share=0.1)
    """How simulated logs are split."""
    model: dict[str, Any] = Field(default={})
    """Settings of all models."""
    training: TrainingConfig = TrainingConfig()
    """How all models are fitted."""
    device: str = "cpu"
    """Where models are fitted."""

    @field_validator("seeds")
    @classmethod
    def _once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed is given twice")
        return seeds

    @model_validator(mode="after")
    def _possible(self) -> Self:
        # Now, and not after an hour in the middle of the study.
        try:
            self.simulated(self.seeds[0])
            ModelConfig.build(self.model, "model")
        except SlatewiseError as error:
            raise SettingError.of(error) from error
        return self

    def simulated(self, seed: int) -> SimulationConfig:
        """Return the simulated world of a seed."""
        preset = load_config(self.preset, truth=self.truth).model_dump()
        values = merged(preset, self.simulation) | {"seed": seed}
        return SimulationConfig.build(values, "simulation")


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with some of them changed, section by section."""
    result = dict(base)
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


ConfigT = TypeVar("ConfigT", bound=StudyConfig)


@dataclass(frozen=True)
class Unit:
    """A piece of a study that is run and kept by itself."""

    seed: int
    part: str = ""
    """What tells it from others of the same seed, such as the name of a model."""

    def __post_init__(self) -> None:
        """Refuse what cannot be in the name of a file."""
        if not re.fullmatch(r"[\w.@+-]*", self.part):
            raise SlatewiseError(f"'{self.part}' cannot be the name of a unit.")

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"seed-{self.seed}" + (f"-{self.part}" if self.part else "")


@dataclass(frozen=True)
class Bench:
    """What a unit may use while it runs."""

    shared: Path
    """A directory that all studies of OUT share, for what costs to make, such as datasets."""
    scratch: Path
    """A directory of the unit's own that outlives an interruption, and not the unit."""
    progress: Progress
    each: Each = in_turn
    """Does some work on each of a list of tasks, on a cluster side by side, and returns what it
    made of them, in their order."""


@dataclass(frozen=True)
class Summary:
    """What follows from the rows of all units."""

    tables: Tables = field(default_factory=dict)
    """Further tables: what is shown and drawn."""
    findings: Sequence[Finding] = ()
    headline: str = ""
    """The table that is printed when the study ends."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Names and texts of further files of the study, such as a configuration."""


@dataclass(frozen=True)
class Study(Generic[ConfigT]):
    """A study as four functions of its configuration; the module's docstring explains each."""

    name: str
    title: str
    config: type[ConfigT]
    units: Callable[[ConfigT], Sequence[Unit]]
    run: Callable[[ConfigT, Unit, Bench], Tables]
    summarise: Callable[[ConfigT, Tables], Summary]


NEEDS: Final = (
    *("name", "title", "config", "units(config)"),
    *("run(config, unit, bench)", "summarise(config, tables)"),
)
"""What an object must have to be a study."""


def find_study(name: str) -> Study[Any]:
    """Return a study by its name or its import path."""
    study: Study[Any]
    if is_import_path(name):
        study = load_object(name, "study", NEEDS, instance=True)
    elif name in STUDIES:
        study = import_module(STUDIES[name]).STUDY
    else:
        raise SlatewiseError(
            f"there is no study '{name}'.",
            f"Choose one of {', '.join(STUDIES)}, or give an import path.",
        )
    return study


def study_config(
    study: Study[ConfigT], file: str | Path | None = None, **options: object
) -> ConfigT:
    """Return the configuration of a TOML file, changed by those options that are not None."""
    values = read_toml(file) if file is not None else {}
    values |= {name: value for name, value in options.items() if value is not None}
    return study.config.build(values, str(file or "options"))


def run_study(
    study: Study[ConfigT],
    config: ConfigT,
    out: str | Path,
    *,
    jobs: int = 1,
    side_by_side: SideBySide | None = None,
    each: Each = in_turn,
    progress: Progress = _silent,
    notice: Callable[[str], None] = lambda text: None,
) -> StudyResult:
    """Run what is missing of a study in OUT/NAME, gather everything, and return it.

    Interrupted, it resumes after the last finished unit when it is called again. With
    `jobs` as many units run at once, in processes of their own, to the same numbers; or wherever
    `side_by_side` runs them, such as on a cluster, where `each` runs what a unit can divide.
    `notice` hears of units that were damaged and are run again.
    """
    store, units = Store(Path(out) / study.name), study.units(config)
    description = _description(study, config)
    store.begin(description)
    missing = [unit for unit in units if store.unit(unit.name) is None]
    for unit in missing:
        if store.has(unit.name):
            notice(f"Unit {unit.name} is damaged and is run again.")
    counter = count(len(units) - len(missing))

    def finished() -> None:
        progress(study.name, next(counter), len(units))

    finished()
    if side_by_side is not None or (jobs > 1 and len(missing) > 1):
        work = partial(_run_unit, study, config, store, _silent, each)
        (side_by_side or run_in_processes)(work, missing, jobs, finished)
    else:
        for unit in missing:
            _run_unit(study, config, store, progress, each, unit)
            finished()
    return _gather(study, config, units, store, description)


def _description(study: Study[ConfigT], config: ConfigT) -> dict[str, Any]:
    """Return the head of `study.json`; `settings` are what must not change on the way."""
    settings = config.model_dump(mode="json", exclude={"seeds", "dataset"})
    hash_ = SlateDataset.open(config.dataset).content_hash if config.dataset is not None else None
    return {
        "format": FORMAT,
        "version": VERSION,
        "study": study.name,
        "title": study.title,
        "settings": settings | {"dataset": hash_},
        "seeds": list(config.seeds),
        "dataset": str(config.dataset) if config.dataset is not None else None,
        "versions": versions(),
    }


def _run_unit(
    study: Study[ConfigT],
    config: ConfigT,
    store: Store,
    progress: Progress,
    each: Each,
    unit: Unit,
) -> None:
    import torch  # noqa: PLC0415 (takes a second: only a study that runs pays)

    # Sums over several threads would depend on how many there are.
    torch.set_num_threads(1)
    shared = store.folder.parent / "shared"
    start, cpu = time.perf_counter(), time.process_time()
    tables = study.run(config, unit, Bench(shared, store.scratch(unit.name), progress, each))
    store.keep(unit.name, tables, time.perf_counter() - start, time.process_time() - cpu)


def _gather(
    study: Study[ConfigT],
    config: ConfigT,
    units: Sequence[Unit],
    store: Store,
    description: dict[str, Any],
) -> StudyResult:
    tables: Tables = {}
    run = {}
    for unit in units:
        record = store.unit(unit.name)
        if record is None:
            raise SlatewiseError(
                f"unit {unit.name} vanished while the study ran.", "Run the study again."
            )
        run[unit.name] = {
            "seconds": record.seconds,
            "cpu_seconds": record.cpu_seconds,
            "slatewise": record.version,
        }
        for name, rows in record.tables.items():
            tables.setdefault(name, []).extend(rows)
    summary = study.summarise(config, tables)
    tables |= plain(summary.tables)
    for name, text in summary.files.items():
        (store.folder / name).write_text(text, encoding="utf-8")
    description |= {"units": run, "headline": summary.headline}
    store.finish(description, tables, summary.findings)
    return StudyResult.load(store.folder)
