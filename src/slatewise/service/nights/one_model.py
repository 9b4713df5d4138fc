"""One model's night: is there enough, who is to be beaten, train, judge, promote."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.model.fitted import SlateModel
from slatewise.service.config import ModelSpec, RetrainingConfig
from slatewise.service.nights.carrying import carried_to
from slatewise.service.nights.deciding import decide, is_surely_worse, of
from slatewise.service.nights.describing import Description, describe
from slatewise.service.nights.judging import Score, score
from slatewise.service.nights.known import Known, known_versions
from slatewise.service.nights.learning import learn
from slatewise.service.nights.material import Material
from slatewise.service.nights.parts import LEAST_JUDGED, Parts, divide
from slatewise.service.nights.recipe import Recipe, recipe_of
from slatewise.service.nights.report import Night
from slatewise.service.nights.window import Progress
from slatewise.service.serving.models import Models
from slatewise.service.store.clock import iso
from slatewise.training import runs

_LEAST_JUDGES: Final = 2
"""Users who judge, at least: there is no interval over one."""


class NotEnoughError(Exception):
    """There is too little to learn from, or to judge by."""


@dataclass(frozen=True)
class Task:
    """A model to be retrained."""

    name: str
    spec: ModelSpec
    rules: RetrainingConfig
    models: Models
    material: Material
    seed: int
    fresh: bool
    """start from nothing, and choose terms anew"""
    progress: Progress


@dataclass(frozen=True)
class Rival:
    """A version to be beaten."""

    known: Known
    score: Score | None
    """None where there was too little to judge by"""
    described: Description | None
    """features of the window's items, where the model was trained with features"""


def retrain_model(task: Task, night: Night) -> None:
    """Do it all, and note in `night` what happened."""
    _require_slates(task, night)
    known, night.notes = known_versions(task.models)
    parts = _parts(task, night, known)
    judged = parts.judged >= LEAST_JUDGED and parts.judges >= _LEAST_JUDGES
    if known and not judged and task.rules.promote != "always":
        raise NotEnoughError(
            f"{parts.judged:,} interactions since {iso(parts.judged_from)} can judge, "
            f"{LEAST_JUDGED} of {_LEAST_JUDGES} users are needed"
        )
    rival = _rival(task, night, [_judge(task, one, parts, judged) for one in known])
    recipe, fitted = _train(task, night, parts.learning, rival)
    gain = None
    if judged:
        new = score(fitted, parts.judging, task.seed)
        night.scores["new"] = new.to_json()
        if rival is not None and rival.score is not None:
            night.scores["serving"] = rival.score.to_json()
            night.scores["gain"] = (new - rival.score).to_json()
            gain = (new - rival.score).log_likelihood
    decision = decide(gain, task.rules.promote, task.rules.tolerance)
    night.why = decision.why
    if decision.promote:
        _promote(task, night, recipe, parts, fitted, proven=gain is not None)
    else:
        night.outcome = "kept"


def _require_slates(task: Task, night: Night) -> None:
    window, least = task.material.window, task.rules.min_slates
    counts = {key: value for key, value in asdict(window).items() if not isinstance(value, Path)}
    night.window = counts | {"start": iso(window.start), "end": iso(window.end)}
    if window.slates < least:
        raise NotEnoughError(
            f"{window.slates:,} slates of the window have an outcome, {least:,} are needed"
        )
    if not window.clicks:
        raise NotEnoughError("nobody clicked on anything")


def _parts(task: Task, night: Night, known: list[Known]) -> Parts:
    until = known[0].until if known else None
    parts = divide(task.material.dataset, task.material.now, until, task.seed)
    if not parts.learned or not parts.ending:
        raise NotEnoughError("too few users are there to learn from and to end training by")
    night.parts = {
        name: getattr(parts, name) for name in ("learned", "ending", "judged", "judges")
    } | {"judged_from": iso(parts.judged_from)}
    return parts


def _judge(task: Task, known: Known, parts: Parts, judged: bool) -> Rival:
    described = describe(known.model, task.material)
    if not judged:
        return Rival(known, None, described)
    task.progress(f"judging version {known.version}", 0, None)
    features = None if described is None else described.features
    carried = carried_to(known.model, parts.judging, features)
    return Rival(known, score(carried, parts.judging, task.seed), described)


def _rival(task: Task, night: Night, rivals: list[Rival]) -> Rival | None:
    """Return the version to be beaten: what serves, unless what served before was better.

    What serves learned from a newest day that nobody could judge then. This is where a bad one
    shows, and is taken back.
    """
    if len(rivals) < 2 or rivals[0].score is None or rivals[1].score is None:
        return rivals[0] if rivals else None
    serving, before = rivals
    gain = rivals[0].score - rivals[1].score
    night.scores["serving_over_the_one_before"] = gain.to_json()
    if task.rules.promote == "always" or not is_surely_worse(
        gain.log_likelihood, task.rules.tolerance
    ):
        return serving
    why = f"version {serving.known.version} was worse than {before.known.version}"
    task.models.rollback(why + of(gain.log_likelihood))
    night.notes.append(f"Taken back: {why}{of(gain.log_likelihood)}.")
    return before


def _train(
    task: Task, night: Night, dataset: SlateDataset, rival: Rival | None
) -> tuple[Recipe, SlateModel]:
    """Fit to the window without its newest day, from where the rival ended if that can be."""
    served = None if rival is None else rival.known
    start = None if task.fresh else served
    described = None if rival is None else rival.described
    features = None if described is None else described.features
    recipe = recipe_of(
        task.spec,
        dataset,
        served,
        features,
        fresh=task.fresh,
        seed=task.seed,
        progress=task.progress,
    )
    night.model_from = recipe.origin
    night.notes += recipe.notes
    if described is not None and described.misfits:
        told = f"{described.misfits:,} features of items are of another kind than in training"
        night.notes.append(f"{told}: they count as unknown.")
    fitted = None
    if start is not None:
        try:
            fitted = learn(recipe, dataset, start.model, task.seed, task.progress, "training")
            night.started_from = start.version
        except SlatewiseError as error:
            night.notes.append(f"Training could not go on from {start.version}: {error.problem}")
    if fitted is None:
        fitted = learn(recipe, dataset, None, task.seed, task.progress, "training")
    night.fits = {"name": recipe.name, "judged": fitted.metrics}
    return recipe, fitted


def _promote(
    task: Task, night: Night, recipe: Recipe, parts: Parts, fitted: SlateModel, *, proven: bool
) -> None:
    """Make a version of the model and let it serve.

    Under the rule `better` it is the very model that was judged. Else it goes on learning, from the
    newest day as well: what is new in the shop is worth most on its first days.
    """
    until = parts.judged_from
    if not (proven and task.rules.promote == "better"):
        final = "training on the newest day"
        fitted = learn(recipe, parts.everything, fitted, task.seed, task.progress, final)
        night.fits["final"] = fitted.metrics
        until = task.material.now
    run = task.material.folder / task.name
    run.mkdir()
    about = {
        "seed": task.seed,
        "training": recipe.training.model_dump(mode="json"),
        "dataset": {"content_hash": parts.everything.content_hash},
        "retraining": {
            "until": until,
            "started_from": night.started_from,
            "model": recipe.intended.model_dump(mode="json"),
        },
    }
    runs.write_model(fitted, run, about)
    recipe.write_selection(run)
    version = task.models.add(run)
    task.models.promote(version, night.why)
    night.outcome = "promoted"
    task.models.prune(task.rules.keep)
