"""Fits the model that predicts and serves: settings left open follow the log.

The command line, `slatewise.fit` and the nights of the service all come here, so that one log and
one seed give one model. `slatewise.training.fit` fits a configuration as it stands.
"""

from dataclasses import dataclass
from pathlib import Path

from slatewise.data.dataset import SlateDataset
from slatewise.evaluation import (
    Calibration,
    ModelRecommender,
    reliability,
    sample_predictions,
    settle_candidates,
)
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.model.likelihood import exposure_weights
from slatewise.training import fit as fit_as_configured
from slatewise.training import runs, sizes
from slatewise.training.config import TrainingConfig
from slatewise.training.trainer import Observer


@dataclass(frozen=True)
class FittingPlan:
    """What is fitted to a log."""

    model: ModelConfig
    training: TrainingConfig
    notes: tuple[str, ...]
    """what was chosen for the log, and why, in sentences"""


def plan_fit(
    dataset: SlateDataset,
    model: ModelConfig | None = None,
    training: TrainingConfig | None = None,
    *,
    device: str = "cpu",
) -> FittingPlan:
    """Fill in what is not given: likelihood, terms, sizes and the order of optimisation."""
    model, training = model or ModelConfig(), training or TrainingConfig()
    size = sizes.LogSize.of(dataset)
    model, notes = with_usual_likelihood(dataset, model)
    if model.likelihood == "source-aware":
        notes.append(_exposure_note(model, dataset))
    found, missing = (model, {}) if size.clicks_only else sizes.with_terms(model, dataset, device)
    if found != model:
        notes.append(f"Terms for this log: {', '.join(found.terms)}.")
        if missing:
            reasons = (f"{name} ({why})" for name, why in missing.items())
            notes.append(f"Terms left out: {', '.join(reasons)}.")
    training = sizes.with_optimisation(training, found, dataset)
    model, training = sizes.settled(found, training, size, device=device)
    return FittingPlan(model, training, tuple(notes))


def with_usual_likelihood(
    dataset: SlateDataset, model: ModelConfig
) -> tuple[ModelConfig, list[str]]:
    """Return the model with the likelihood that suits a log if none was given, and say why."""
    size = sizes.LogSize.of(dataset)
    found = sizes.with_likelihood(model, size)
    if found == model:
        return model, []
    if size.searched:
        return found, ["The log has searches: the likelihood is source-aware."]
    notes = ["Every slate is one clicked item: the likelihood is all-item."]
    if not sizes.settled(found, TrainingConfig(), size)[0].repeats:
        notes.append("No user clicks an item twice: a click is compared with what is left.")
    return found, notes


def _exposure_note(model: ModelConfig, dataset: SlateDataset) -> str:
    """Say how much slates of each source count, and why where that is not given."""
    weights = exposure_weights(model, dataset.source_names)
    line = "Exposure: " + ", ".join(f"{name}={weight:g}" for name, weight in weights.items())
    if model.exposure is None:
        line += " (set with --exposure)"
    return line


def finish_fit(
    fitted: SlateModel, dataset: SlateDataset, *, seed: int = 0, run: Path | None = None
) -> dict[int, float]:
    """Calibrate a model, and settle how many items are ranked again, by the validation part.

    What was found is kept in the model and in its run. Returns the recall of held-out clicks by
    number of items ranked again.
    """
    predictions = sample_predictions(ModelRecommender(fitted, log=dataset), dataset)
    calibration = Calibration.fit(predictions, dataset.source_names)
    fitted.calibration = calibration.to_json()
    recalls = settle_candidates(fitted, dataset, seed=seed)
    if run is not None:
        runs.update(
            run,
            calibration=fitted.calibration,
            reliability=reliability(calibration.apply(predictions, dataset.source_names)),
            terms=fitted.terms.to_json(),
        )
    return recalls


def fit(
    dataset: SlateDataset,
    model: ModelConfig | None = None,
    training: TrainingConfig | None = None,
    *,
    seed: int = 0,
    device: str = "cpu",
    item_features: ItemFeatures | None = None,
    run: str | Path | None = None,
    resume: bool = False,
    observer: Observer = lambda progress: None,
) -> SlateModel:
    """Fit the model that `slatewise train` fits to a dataset.

    What the configurations leave open follows the log: likelihood, terms (`terms=()` is the paper's
    model), sizes. The model is calibrated, and with `run` it is saved there, with checkpoints from
    which `resume` continues.

    `seed` decides everything random: on a CPU the same dataset, configuration and seed give the
    same model bit for bit, however often the run was interrupted and resumed. With `item_features`,
    the prior mean of an item depends on them and on its group. `observer` is called after every
    step with the progress.
    """
    plan = plan_fit(dataset, model, training, device=device)
    fitted = fit_as_configured(
        dataset,
        plan.model,
        plan.training,
        seed=seed,
        device=device,
        item_features=item_features,
        run=run,
        resume=resume,
        observer=observer,
    )
    finish_fit(fitted, dataset, seed=seed, run=None if run is None else Path(run))
    return fitted
