"""How a model is trained; the model itself has its own configuration."""

from typing import Annotated, Final, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from slatewise.config import Config, Search

STEPS: Final = 16
"""Steps that an epoch has at least."""
CATALOGUE_STEPS: Final = 64
"""Steps that it has where the likelihood has an exposure term, unless users are few."""
LEAST_USERS, MOST_USERS = 32, 512


class TrainingConfig(Config):
    """Settings of training; the defaults were measured on simulated logs."""

    learning_rate: Annotated[PositiveFloat | None, Search(1e-4, 1e-1)] = None
    """ℓ, of Adam; without it .02."""
    batch_users: PositiveInt | None = None
    """B, users per step; without it what gives an epoch 16 steps, or 64 where the likelihood has an
    exposure term, but no more than 512 users."""
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
    optimisation: Literal["auto", "joint", "two-step", "terms-last"] = "auto"
    """All parameters together, which is `auto` too, or first the items under linear dynamics and
    then, with the items frozen, the GRU. `terms-last` is joint for a model without its terms, and
    then the terms alone, beside vectors that rank as they would without."""
    gradient_limit: PositiveFloat = 1.0
    """Largest norm of the gradient of everything but the items; a guard, rarely active."""

    @property
    def rate(self) -> float:
        """The learning rate, given or not."""
        return self.learning_rate or 0.02

    def batch(self, users: int, likelihood: str) -> int:
        """Return how many of the users of a log, those with training interactions, make a step.

        Fits end by the epoch, and one of a few steps says little. An item of a large catalogue is
        found by small steps; below 32 users a step has too few clicks to tell noise from them.
        """
        if self.batch_users is not None:
            return self.batch_users
        most = MOST_USERS
        if likelihood != "slate":
            most = min(most, max(users // CATALOGUE_STEPS, LEAST_USERS))
        return max(1, min(most, users // STEPS))
