"""The budget of a selection, and how its trials and the chosen model are trained."""

from pydantic import Field, PositiveFloat, PositiveInt

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.training import TrainingConfig
from slatewise.training.config import STEPS


class SelectionConfig(Config):
    """The budget of a selection."""

    interactions: PositiveInt = 15_000
    """Interactions that trial models are fitted to, at most, of whole users."""
    judged: PositiveInt = 10_000
    """Interactions that trial models are judged on, at most."""
    ending: PositiveInt = 6_000
    """Interactions of other users that say when a fit ends, and calibrate, at most."""
    judged_share: float = Field(default=0.25, gt=0, lt=1)
    """Share of the interactions (the latest), or of users where times are only an order, that no
    trial model is fitted on."""
    epochs: PositiveInt = 20
    """Most epochs of a trial model."""
    further_epochs: PositiveInt = 4
    """Most epochs of one that starts from what a larger one has learned."""
    least_gain: PositiveFloat = 0.001
    """Gain in nats per interaction below which a term is not worth having."""


def trial_recipe(
    dataset: SlateDataset, training: TrainingConfig, config: SelectionConfig
) -> TrainingConfig:
    """Return how trial models are fitted: as the chosen one will be, with less patience."""
    users = int((dataset.train_end > 0).sum())
    quicker = {
        "batch_users": max(1, min(training.batch(users, "slate"), users // STEPS)),
        "max_epochs": min(training.max_epochs, config.epochs),
        "patience": min(training.patience, 4),
        "plateau": min(training.plateau, 2),
        "optimisation": "joint",
    }
    return training.model_copy(update=quicker)
