"""What is fitted tonight: the model of the configuration, with the terms chosen for it."""

from dataclasses import dataclass, field
from pathlib import Path

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.item_features import ItemFeatures
from slatewise.selection import SELECTION, Choice, Selection, read_choice, recipe_for, select
from slatewise.service.config import ModelSpec
from slatewise.service.nights.window import Progress
from slatewise.training.config import TrainingConfig


@dataclass
class Recipe:
    """A model and how it is fitted."""

    model: ModelConfig
    training: TrainingConfig
    item_features: ItemFeatures | None = None
    """of the items of the window, for a model that goes on with features"""
    chosen: Selection | Path | None = None
    """what chose the terms, tonight or, in a file, on an earlier night"""
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What the model is called in reports."""
        return Choice(self.model, self.item_features is not None).name

    def take(self, choice: Choice, chosen: Selection | Path) -> None:
        """Fit what was chosen: with features of items only if they were."""
        self.model, self.chosen = choice.model, chosen
        if not choice.described:
            self.item_features = None

    def write_choice(self, run: Path) -> None:
        """Keep the choice of terms with the model, for the nights to come."""
        if isinstance(self.chosen, Selection):
            self.chosen.write(run)
        elif self.chosen is not None:
            (run / SELECTION).write_bytes(self.chosen.read_bytes())


def recipe_of(
    spec: ModelSpec,
    dataset: SlateDataset,
    earlier: Path | None,
    item_features: ItemFeatures | None,
    seed: int,
    progress: Progress,
) -> Recipe:
    """Return what to fit to a window; `earlier` is the run whose choice of terms is kept."""
    # A service's log is small at first and real for ever: few steps an epoch, or an end by the
    # posterior mean, would end training too early.
    recipe = Recipe(spec.model, recipe_for(dataset, spec.training), item_features)
    if spec.auto:
        _choose(recipe, dataset, earlier, seed, progress)
    _leave_out_absent(recipe, dataset)
    return recipe


def _choose(
    recipe: Recipe, dataset: SlateDataset, earlier: Path | None, seed: int, progress: Progress
) -> None:
    """Take over the terms of an earlier night, or choose them."""
    try:
        kept = None if earlier is None else read_choice(earlier, recipe.model)
        if kept is not None and earlier is not None:
            recipe.take(kept, earlier / SELECTION)
            return
        found = select(
            dataset,
            recipe.model,
            training=recipe.training,
            item_features=recipe.item_features,
            seed=seed,
            progress=progress,
        )
    except SlatewiseError as error:
        recipe.notes.append(f"No terms were chosen tonight: {error.problem}")
        return
    if recipe.item_features is not None and not found.described:
        recipe.notes.append("Features of items were not chosen: the model goes on without them.")
    recipe.take(found.choice, found)
    recipe.notes.append(f"Terms were chosen: {found.choice.name}.")


def _leave_out_absent(recipe: Recipe, dataset: SlateDataset) -> None:
    """Do without evidence from sources of which the window has no slate."""
    absent = [name for name in recipe.model.evidence if name not in dataset.source_names]
    if absent:
        present = tuple(name for name in recipe.model.evidence if name not in absent)
        recipe.model = recipe.model.model_copy(update={"evidence": present})
        recipe.notes.append(
            f"The window has no slate from {', '.join(absent)}: evidence from there is left out."
        )
