"""What is fitted tonight: the model that serves, changed by the settings, or by a new choice."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.model.registry import TERMS
from slatewise.selection import (
    CHOSEN,
    SELECTION,
    ModelChoice,
    Selection,
    finish_fit,
    plan_fit,
    select,
    with_usual_likelihood,
)
from slatewise.service.nights.report import ModelOrigin
from slatewise.service.nights.versions import Version
from slatewise.service.nights.window import Progress
from slatewise.service.settings import ModelSpec
from slatewise.training import fit
from slatewise.training.config import TrainingConfig
from slatewise.training.loop import Progress as State
from slatewise.training.unused import training_of, unused_settings, without_unused

_OF_SOURCES: Final = ("evidence", "exposure", "likelihood")
"""Settings that a night does without where the window has no slate of the sources they name."""


@dataclass
class Recipe:
    """A model and how it is fitted."""

    model: ModelConfig
    training: TrainingConfig
    item_features: ItemFeatures | None = None
    """of the items of the window, for a model that goes on with features"""
    origin: ModelOrigin = "the settings"
    selection: Selection | Path | None = None
    """how its terms were chosen, tonight or, in a file, earlier"""
    notes: list[str] = field(default_factory=list)
    intended: ModelConfig = field(init=False)
    """the model with the sources that the window has no slate from"""

    def __post_init__(self) -> None:
        """Intend what is fitted."""
        self.intended = self.model

    @property
    def name(self) -> str:
        """What the model is called in reports."""
        return ModelChoice(self.model, self.item_features is not None).name

    def write_selection(self, run: Path) -> None:
        """Keep the choice of terms with the model, for the nights to come."""
        if isinstance(self.selection, Selection):
            self.selection.write(run)
        elif self.selection is not None:
            (run / SELECTION).write_bytes(self.selection.read_bytes())


def recipe_of(
    spec: ModelSpec,
    dataset: SlateDataset,
    served: Version | None,
    item_features: ItemFeatures | None,
    *,
    fresh: bool,
    seed: int,
    progress: Progress,
) -> Recipe:
    """Return what to fit to a window.

    A setting that the service was given wins over that of the version that serves, and this one
    over the default. With `auto`, terms are chosen where that version has none of its own, or for
    a `fresh` start.
    """
    recipe = Recipe(spec.model, _training(spec, served), item_features)
    if served is not None:
        _go_on_with(recipe, spec, served)
    if spec.auto and (fresh or served is None or not _has_own_terms(spec, served)):
        _choose(recipe, spec, dataset, served, seed, progress)
    asked = recipe.model
    _leave_out_absent_evidence(recipe, dataset)
    _leave_out_absent_exposure(recipe, dataset)
    waiting = {n: getattr(asked, n) for n in _OF_SOURCES} if recipe.model != asked else {}
    plan = plan_fit(dataset, recipe.model, recipe.training)
    recipe.model, recipe.training = plan.model, plan.training
    recipe.intended = recipe.model.model_copy(update=waiting)
    if served is None and recipe.selection is None:
        recipe.notes.extend(plan.notes)
    _leave_out_unused(recipe, spec)
    return recipe


def fit_recipe(
    recipe: Recipe,
    dataset: SlateDataset,
    start: SlateModel | None,
    seed: int,
    progress: Progress,
    stage: str,
) -> SlateModel:
    """Fit to the training part, from `start` if given, and calibrate by the validation part.

    Its metrics tell the `curve` too: the validation likelihood after each epoch.
    """
    curve: list[float] = []

    def observe(at: State) -> None:
        progress(stage, at.epoch, recipe.training.max_epochs)
        curve.extend(round(one["validation"], 5) for one in at.history[len(curve) :])

    fitted = fit(
        dataset,
        recipe.model,
        recipe.training,
        seed=seed,
        start=start,
        item_features=recipe.item_features,
        observer=observe,
    )
    fitted.metrics["curve"] = curve
    finish_fit(fitted, dataset, seed=seed)
    return fitted


def _training(spec: ModelSpec, served: Version | None) -> TrainingConfig:
    """Return how the served version was fitted, changed by the settings."""
    fields = TrainingConfig.model_fields
    # Users a step follow from the size of the log, which has changed since.
    kept = {
        name: value
        for name, value in ({} if served is None else served.training).items()
        if name in fields and name != "batch_users" and value != fields[name].default
    }
    return TrainingConfig.build(kept | spec.training.model_dump(exclude_unset=True), "the settings")


def _go_on_with(recipe: Recipe, spec: ModelSpec, served: Version) -> None:
    """Take the model that serves, changed by the settings."""
    given = spec.model.model_dump(exclude_unset=True)
    chosen = spec.auto and served.selection is not None
    if chosen:  # the settings are what the choice was begun with
        given = {name: value for name, value in given.items() if name not in CHOSEN}
    before = served.config.model_dump()
    try:
        recipe.model = ModelConfig.build(before | given, "[model]")
    except SlatewiseError as error:
        recipe.notes.append(
            f"The settings do not fit the model of {served.name}, and are taken alone: "
            f"{error.problem}"
        )
        return
    recipe.origin = "chosen by an earlier night" if chosen else "the version that serves"
    changed = [name for name in given if recipe.model.model_dump()[name] != before.get(name)]
    if changed:
        recipe.notes.append(f"The settings change the model that serves: {', '.join(changed)}.")
    if not set(CHOSEN).intersection(changed):
        recipe.selection = served.selection


def _has_own_terms(spec: ModelSpec, served: Version) -> bool:
    """Return whether a version has chosen terms, or others than the settings begin with."""
    config, given = served.config, spec.model
    named = [term for term in config.terms if not TERMS[term].automatic]
    own = {*named, *config.evidence} - {*given.terms, *given.evidence}
    return served.selection is not None or bool(own)


def _to_choose_for(spec: ModelSpec, served: Version | None) -> ModelConfig:
    """Return the model to which terms are added: the served one without those it has."""
    if served is None:
        return spec.model
    kept = {name: v for name, v in served.config.model_dump().items() if name not in CHOSEN}
    return ModelConfig.build(kept | spec.model.model_dump(exclude_unset=True), "[model]")


def _choose(
    recipe: Recipe,
    spec: ModelSpec,
    dataset: SlateDataset,
    served: Version | None,
    seed: int,
    progress: Progress,
) -> None:
    """Choose terms for the model; where that is not possible, the recipe stays as it is."""
    try:
        found = select(
            dataset,
            with_usual_likelihood(dataset, _to_choose_for(spec, served))[0],
            training=recipe.training,
            item_features=recipe.item_features,
            seed=seed,
            progress=progress,
        )
    except SlatewiseError as error:
        # Without terms of its own, a later night tries again.
        recipe.model = recipe.model.changed(terms=recipe.model.terms)
        recipe.notes.append(f"No terms were chosen tonight: {error.problem}")
        return
    if recipe.item_features is not None and not found.described:
        recipe.notes.append("Features of items were not chosen: the model goes on without them.")
        recipe.item_features = None
    # Terms are given now, also where none was chosen.
    recipe.model = found.model.changed(terms=found.model.terms)
    recipe.selection = found
    recipe.origin = "chosen tonight (auto)"
    recipe.notes.append(f"Terms were chosen: {found.choice.name}.")


def _leave_out_absent_evidence(recipe: Recipe, dataset: SlateDataset) -> None:
    """Do without evidence from sources of which the window has no slate."""
    absent = [name for name in recipe.model.evidence if name not in dataset.source_names]
    if absent:
        present = tuple(name for name in recipe.model.evidence if name not in absent)
        recipe.model = recipe.model.model_copy(update={"evidence": present})
        recipe.notes.append(
            f"The window has no slate from {', '.join(absent)}: evidence from there is left out."
        )


def _leave_out_absent_exposure(recipe: Recipe, dataset: SlateDataset) -> None:
    """Do without the exposure of sources of which the window has no slate."""
    weights = recipe.model.exposure or {}
    absent = sorted(weights.keys() - set(dataset.source_names))
    if recipe.model.likelihood != "source-aware" or not absent:
        return
    present = {name: weight for name, weight in weights.items() if name not in absent}
    note = f"The window has no slate from {', '.join(absent)}: exposure there is left out."
    update: dict[str, object] = {"exposure": present}
    if not present:
        update = {"likelihood": "slate"}
        note += " No source with a weight is left, so the slate likelihood is used."
    recipe.model = recipe.model.model_copy(update=update)
    recipe.notes.append(note)


def _leave_out_unused(recipe: Recipe, spec: ModelSpec) -> None:
    """Do without settings that change nothing in this model, and name those of the service."""
    described = recipe.item_features is not None
    unused = unused_settings(recipe.model, item_features=described)
    for name in sorted(unused.keys() & spec.model.model_dump(exclude_unset=True).keys()):
        recipe.notes.append(f"The setting {name} changes nothing: it is for {unused[name]}.")
    recipe.model = without_unused(recipe.model, item_features=described)
    recipe.training = training_of(recipe.model, recipe.training)
