"""How models are fitted when terms are chosen: the trials, and then the chosen one."""

from typing import Final

from slatewise.data.dataset import SlateDataset
from slatewise.selection.config import SelectionConfig
from slatewise.training import TrainingConfig

VALIDATION_DRAWS: Final = 4
"""Posterior draws by which fits end. By the posterior mean, a fit to slates of one item ends after
an epoch or two, whatever its terms."""
STEPS: Final = 16
"""Steps that an epoch has at least: fits end by the epoch, and one of three steps says little."""


def recipe_for(dataset: SlateDataset, training: TrainingConfig) -> TrainingConfig:
    """Return how to fit to a log of this size, where the configuration does not say."""
    usual = {"validation_draws": VALIDATION_DRAWS, "batch_users": _batch(dataset, training)}
    missing = usual.keys() - training.model_fields_set
    return training.model_copy(update={name: usual[name] for name in missing})


def trial_recipe(
    dataset: SlateDataset, training: TrainingConfig, config: SelectionConfig
) -> TrainingConfig:
    """Return how trial models are fitted: as the chosen one will be, with less patience."""
    quicker = {
        "batch_users": _batch(dataset, training),
        "max_epochs": min(training.max_epochs, config.epochs),
        "patience": min(training.patience, 4),
        "plateau": min(training.plateau, 2),
        "optimisation": "joint",
    }
    return training.model_copy(update=quicker)


def _batch(dataset: SlateDataset, training: TrainingConfig) -> int:
    users = int((dataset.train_end > 0).sum())
    return max(1, min(training.batch_users, users // STEPS))
