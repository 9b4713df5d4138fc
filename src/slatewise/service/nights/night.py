"""A night, top to bottom: read the window from the store, train, judge, promote.

What serves is replaced at the very end and by one renamed file, so that a night that fails, or is
killed, at whatever moment leaves everything as it was.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeGuard

from safetensors import SafetensorError

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.model.fitted import SlateModel
from slatewise.service.nights.item_features import (
    NO_FEATURES,
    WindowFeatures,
    described_dataset,
    window_features,
)
from slatewise.service.nights.judgement import (
    Decision,
    Score,
    decide,
    decide_drift,
    in_words,
    is_surely_worse,
    score,
)
from slatewise.service.nights.recipe import Recipe, fit_recipe, recipe_of
from slatewise.service.nights.report import Night
from slatewise.service.nights.split import LEAST_JUDGED, WindowSplit, split_window
from slatewise.service.nights.versions import (
    Version,
    as_learned,
    best_version,
    served_versions,
    transfer,
)
from slatewise.service.nights.window import NightData, Progress, VisitStore
from slatewise.service.serving.models import Models
from slatewise.service.settings import ModelSpec, RetrainingConfig, ServiceConfig
from slatewise.service.store.clock import AHEAD, DAY, iso, wall_clock
from slatewise.service.store.workspace import workspace
from slatewise.training import runs
from slatewise.words import counted

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
    data: NightData
    seed: int
    fresh: bool
    """start from nothing; with `auto`, choose terms anew"""
    progress: Progress


@dataclass(frozen=True)
class Rival:
    """A version to be beaten."""

    version: Version
    score: Score | None
    """None where there was too little to judge by"""
    features: WindowFeatures
    """what it reads of the window's items"""


def retrain(
    directory: Path,
    config: ServiceConfig,
    store: VisitStore,
    *,
    now: int,
    names: Sequence[str] | None = None,
    seed: int = 0,
    fresh: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> list[Night]:
    """Retrain the models of a service, all or those named; return the result of each.

    The window ends at `now`, in microseconds since 1970. With `fresh`, training starts from
    nothing, and a model with `auto` has its terms chosen anew. A second retraining at once is
    refused. The same store, configuration, versions and seed give the same models, bit for bit on
    one machine.
    """
    for name in names or ():
        if name not in config.models:
            raise SlatewiseError(
                f"there is no model '{name}'.", f"The models are {', '.join(config.models)}."
            )
    with workspace(directory) as folder, store.training():
        data = NightData(folder, store, now, config.retraining.window_days, progress)
        return [
            _night(
                Task(
                    name,
                    config.models[name],
                    config.retraining,
                    Models.of(directory, name, store),
                    data,
                    seed,
                    fresh,
                    progress,
                )
            )
            for name in names or config.models
        ]


def _night(task: Task) -> Night:
    """Retrain one model and write the report; a problem ends its night and no other's."""
    night = Night(task.name, task.data.now, task.seed)
    begun = time.monotonic()
    night.before = _serving(task.models)
    try:
        if task.models.follow():  # what another host promoted a moment ago
            night.before = _serving(task.models)
        _retrain_model(task, night)
    except NotEnoughError as few:
        night.outcome, night.why = "not enough", str(few)
    except SlatewiseError as error:
        night.why = " ".join((error.problem, error.remedy)).strip(" .")
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        night.why = f"a file could not be read or written: {reason}. Check the disk"
    night.notes += _future(task.data)
    night.serving = _serving(task.models)
    night.seconds = round(time.monotonic() - begun, 3)
    try:
        night.write(task.models.directory)
    except OSError as error:
        night.notes.append(f"This report could not be kept: {error}.")
    return night


def _future(data: NightData) -> list[str]:
    """Warn if the store has slates dated later than now, which are in no window."""
    try:
        newest = data.store.last_shown()
    except SlatewiseError:
        return []
    if newest <= wall_clock() + AHEAD:
        return []
    when = f"Slates are dated later than now, up to {iso(newest)}, and are not learned from"
    return [f"{when}: stop the service and run slatewise repair DIR."]


def _serving(models: Models) -> str | None:
    now = models.current()
    return None if now is None else now.version


def _retrain_model(task: Task, night: Night) -> None:
    """Train, judge and perhaps promote a model; fill in the report."""
    _require_slates(task, night)
    versions, night.notes = served_versions(task.models)
    parts = _split(task, night, versions)
    judged = parts.judged >= LEAST_JUDGED and parts.judges >= _LEAST_JUDGES
    if versions and not judged and task.rules.promote != "always":
        raise NotEnoughError(
            f"{counted(parts.judged, 'interaction')} since {iso(parts.judged_from)} to judge by, "
            f"{LEAST_JUDGED} of {_LEAST_JUDGES} users are needed"
        )
    rivals = [_judge(task, one, parts, judged) for one in versions]
    best = _best(task, rivals, parts, judged)
    rival = _rival(task, night, rivals)
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
    if decision.promote and judged and _is_another(best, rival):
        decision = _against_best(task, night, new, best) or decision
    night.why = decision.why
    if decision.promote:
        _promote(task, night, recipe, parts, fitted, best, proven=gain is not None)
    else:
        night.outcome = "kept"


def _require_slates(task: Task, night: Night) -> None:
    window, least = task.data.window, task.rules.min_slates
    counts = {key: value for key, value in asdict(window).items() if not isinstance(value, Path)}
    night.window = counts | {"start": iso(window.start), "end": iso(window.end)}
    if window.slates < least:
        older = "" if window.slates else "; a log that ended earlier is reached by --now"
        raise NotEnoughError(
            f"{counted(window.slates, 'slate')} in the window with an outcome, "
            f"{least:,} are needed{older}"
        )
    if not window.clicks:
        raise NotEnoughError("there is no click in the window")


def _split(task: Task, night: Night, versions: list[Version]) -> WindowSplit:
    until = versions[0].until if versions else None
    dataset = described_dataset(versions[0].model if versions else None, task.data)
    parts = split_window(dataset, task.data.now, until, task.seed)
    if not parts.learned or not parts.ending:
        raise NotEnoughError("too few users are there to learn from and to end training by")
    night.parts = {
        name: getattr(parts, name) for name in ("learned", "ending", "judged", "judges")
    } | {"judged_from": iso(parts.judged_from)}
    return parts


def _judge(task: Task, version: Version, parts: WindowSplit, judged: bool) -> Rival:
    found = window_features(version.model, task.data)
    if not judged:
        return Rival(version, None, found)
    task.progress(f"judging version {version.name}", 0, None)
    transferred = transfer(version.model, parts.judging, found)
    return Rival(version, score(transferred, parts.judging, task.seed), found)


def _best(task: Task, rivals: list[Rival], parts: WindowSplit, judged: bool) -> Rival | None:
    """Return the best version of the last weeks, by the newest day."""
    since = task.data.now - round(task.rules.window_days * DAY)
    earlier = best_version(task.models, [rival.version for rival in rivals], since)
    if earlier is not None:
        rivals = [*rivals, _judge(task, earlier, parts, judged)]
    scored = [(rival.score.log_likelihood.value, rival) for rival in rivals if rival.score]
    if not scored:
        return rivals[0] if rivals else None
    return max(scored, key=lambda one: one[0])[1]


def _is_another(best: Rival | None, rival: Rival | None) -> TypeGuard[Rival]:
    return best is not None and (rival is None or best.version.name != rival.version.name)


def _against_best(task: Task, night: Night, new: Score, best: Rival) -> Decision | None:
    """Return why a model is worse than the best version of the last weeks; None if it is not."""
    if task.rules.promote == "always" or best.score is None:
        return None
    gain = new - best.score
    night.scores["gain_over_best"] = gain.to_json()
    decision = decide_drift(gain.log_likelihood, best.version.name, task.rules.tolerance)
    return None if decision.promote else decision


def _rival(task: Task, night: Night, rivals: list[Rival]) -> Rival | None:
    """Return the version to be beaten: what serves, unless what served before was better.

    What serves has learned from a newest day that could not be judged then. This is where a bad
    version shows, and is taken back.
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
    why = f"version {serving.version.name} was worse than {before.version.name}"
    task.models.rollback(why + in_words(gain.log_likelihood))
    night.notes.append(f"Taken back: {why}{in_words(gain.log_likelihood)}.")
    return before


def _train(
    task: Task, night: Night, dataset: SlateDataset, rival: Rival | None
) -> tuple[Recipe, SlateModel]:
    """Fit to the window without its newest day, from where the rival ended if that can be."""
    served = None if rival is None else rival.version
    start = None if task.fresh else served
    found = NO_FEATURES if rival is None else rival.features
    recipe = recipe_of(
        task.spec,
        dataset,
        served,
        found.prior,
        fresh=task.fresh,
        seed=task.seed,
        progress=task.progress,
    )
    night.model_from = recipe.origin
    night.notes += recipe.notes
    if found.misfits:
        misfits = f"{found.misfits:,} features of items are of another kind than in training"
        night.notes.append(f"{misfits}: they count as unknown.")
    fitted = None
    if start is not None:
        try:
            model = as_learned(start)
            fitted = fit_recipe(recipe, dataset, model, task.seed, task.progress, "training")
            night.started_from = start.name
        except SlatewiseError as error:
            night.notes.append(f"Training could not go on from {start.name}: {error.problem}")
    if fitted is None:
        fitted = fit_recipe(recipe, dataset, None, task.seed, task.progress, "training")
    night.fits = {"name": recipe.name, "judged": fitted.metrics}
    return recipe, fitted


def _promote(
    task: Task,
    night: Night,
    recipe: Recipe,
    parts: WindowSplit,
    fitted: SlateModel,
    best: Rival | None,
    *,
    proven: bool,
) -> None:
    """Make a version of the model and let it serve.

    Under the rule `better` it is the very model that was judged. Else it goes on learning, from the
    newest day as well: what is new in the shop is worth most on its first days.
    """
    until = parts.judged_from
    if not (proven and task.rules.promote == "better"):
        final = "training on the newest day"
        fitted = fit_recipe(recipe, parts.everything, fitted, task.seed, task.progress, final)
        night.fits["final"] = fitted.metrics
        until = task.data.now
    run = task.data.folder / task.name
    run.mkdir()
    about = {
        "seed": task.seed,
        "training": recipe.training.model_dump(mode="json"),
        "dataset": {"content_hash": parts.everything.content_hash},
        "retraining": {
            "until": until,
            "started_from": night.started_from,
            "best": None if best is None else best.version.name,
            "model": recipe.intended.model_dump(mode="json"),
        },
    }
    runs.write_model(fitted, run, about)
    recipe.write_selection(run)
    number = partial(task.data.store.take_version, task.name)
    version = task.models.add(run, number)
    task.models.promote(version, night.why)
    night.outcome = "promoted"
    task.models.prune(task.rules.keep, set() if best is None else {best.version.name})
