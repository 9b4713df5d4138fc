"""How a model is trained; the model itself has its own configuration."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from slatewise.config import Config, Search


class TrainingConfig(Config):
    """Settings of training; the defaults were measured on simulated logs."""

    learning_rate: Annotated[PositiveFloat | None, Search(1e-4, 1e-1)] = None
    """ℓ, of Adam; without it .02, and .04 where the likelihood has an exposure term."""
    batch_users: PositiveInt = 512
    """B, users per step."""
    max_epochs: PositiveInt = 200
    """Most passes over the training data, in each stage."""
    patience: PositiveInt = 8
    """Epochs without a better validation likelihood after which a stage ends."""
    plateau: PositiveInt = 4
    """Epochs without a better validation likelihood after which the learning rate drops."""
    drop: float = Field(default=0.3, gt=0, lt=1)
    """Factor by which it drops."""
    least_gain: PositiveFloat = 2e-4
    """Gain in mean log-likelihood below which an epoch counts as no improvement."""
    validation_draws: NonNegativeInt = 0
    """Posterior draws over which the validation likelihood averages; 0 takes the closed form that
    predictions use, which knows how uncertain items are."""
    optimisation: Literal["auto", "joint", "two-step"] = "auto"
    """All parameters together, or first the items under linear dynamics and then, with the items
    frozen, the GRU. `auto` is two-step for a GRU on a million interactions or more."""
    gradient_limit: PositiveFloat = 1.0
    """Largest norm of the gradient of everything but the items; a guard, rarely active."""

    def rate(self, likelihood: str) -> float:
        """Return the learning rate for a model with this likelihood."""
        return self.learning_rate or (0.02 if likelihood == "slate" else 0.04)
