"""Fitting tonight's model, from where an earlier one ended if that can be."""

from slatewise.data.dataset import SlateDataset
from slatewise.evaluation import ModelRecommender, calibrate
from slatewise.model.fitted import SlateModel
from slatewise.service.nights.recipe import Recipe
from slatewise.service.nights.window import Progress
from slatewise.training import fit
from slatewise.training.loop import Progress as State


def learn(
    recipe: Recipe,
    dataset: SlateDataset,
    start: SlateModel | None,
    seed: int,
    progress: Progress,
    stage: str,
) -> SlateModel:
    """Fit to the training part, from `start` if given, and calibrate by the validation part."""

    def observe(at: State) -> None:
        progress(stage, at.epoch, recipe.training.max_epochs)

    fitted = fit(
        dataset,
        recipe.model,
        recipe.training,
        seed=seed,
        start=start,
        item_features=recipe.item_features,
        observer=observe,
    )
    fitted.calibration = calibrate(ModelRecommender(fitted, log=dataset), dataset).to_json()
    return fitted
