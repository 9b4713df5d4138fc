"""How much a selection may cost."""

from pydantic import Field, PositiveFloat, PositiveInt

from slatewise.config import Config


class SelectionConfig(Config):
    """The budget of a selection."""

    interactions: PositiveInt = 60_000
    """Interactions that trial models are fitted to, at most, of whole users."""
    judged: PositiveInt = 20_000
    """Interactions that they are judged on, at most."""
    ending: PositiveInt = 6_000
    """Interactions of other users that say when a fit ends, and calibrate, at most."""
    judged_share: float = Field(default=0.25, gt=0, lt=1)
    """Share of the interactions (the latest), or of users where times are only an order, that no
    trial model is fitted on."""
    epochs: PositiveInt = 30
    """Most epochs of a trial model."""
    least_gain: PositiveFloat = 0.001
    """Gain in nats per interaction below which a term is not worth having."""
