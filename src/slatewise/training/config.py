"""How a model is trained; the model itself has its own configuration."""

from typing import Annotated, Final, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from slatewise.config import Config, Search

STEPS: Final = 16
"""Steps that an epoch has at least."""
CATALOGUE_STEPS: Final = 64
"""Steps that it has where the likelihood has an exposure term, unless users are few."""
LEAST_USERS, MOST_USERS = 32, 512
MOST_ON_GPU: Final = 30_000
"""Users of a step on a GPU, which takes twice as long for 30,000 as for 3,000."""


class TrainingConfig(Config):
    """Settings of training; the defaults were measured on simulated logs."""

    learning_rate: Annotated[PositiveFloat | None, Search(1e-4, 1e-1)] = None
    """ℓ, of Adam; 0.02 if not set."""
    batch_users: PositiveInt | None = None
    """B, users per step; if not set, by the size of the log and the device."""
    max_epochs: PositiveInt = 200
    """Most epochs of a stage."""
    patience: PositiveInt = 8
    """Epochs without a gain of `least_gain` that end a stage."""
    plateau: PositiveInt = 4
    """Epochs without such a gain that drop the learning rate."""
    drop: float = Field(default=0.3, gt=0, lt=1)
    """Factor by which it drops."""
    least_gain: PositiveFloat = 2e-4
    """Smallest gain that counts, in mean validation log-likelihood."""
    validation_draws: NonNegativeInt = 0
    """Posterior draws that validation averages over; 0: the closed form that predictions use, which
    includes the uncertainty of items."""
    optimisation: Literal["auto", "joint", "two-step", "terms-last"] = "auto"
    """`joint`: everything together, as with `auto`. `two-step`: items under linear dynamics, then
    the GRU with items frozen. `terms-last`: the model without terms, then terms with vectors
    frozen."""
    gradient_limit: PositiveFloat = 1.0
    """Largest norm of the gradient, items excepted; rarely active."""

    @property
    def rate(self) -> float:
        """The learning rate, given or not."""
        return self.learning_rate or 0.02

    def batch(self, users: int, likelihood: str, device: str = "cpu") -> int:
        """Return how many of the users of a log, those with training interactions, make a step.

        Fits end by the epoch, and one of a few steps says little. An item of a large catalogue is
        found by small steps; below 32 users a step has too few clicks to tell noise from them. A
        GPU takes no fewer users than a CPU, and more where an epoch still has as many steps.
        """
        if self.batch_users is not None:
            return self.batch_users
        many = max(users // CATALOGUE_STEPS, LEAST_USERS)
        most = MOST_USERS if likelihood == "slate" else min(MOST_USERS, many)
        if device != "cpu":
            most = max(most, min(MOST_ON_GPU, many))
        return max(1, min(most, users // STEPS))
