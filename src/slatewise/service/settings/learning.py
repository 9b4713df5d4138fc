"""Learning between nights: whether answers count before the next training, and how soon."""

from pydantic import PositiveFloat

from slatewise.config import Config


class LearningConfig(Config):
    """What is learned before the next night."""

    between_nights: bool = False
    """Let every answer to a slate of ours move the vectors and biases of its items at once."""
    seconds: PositiveFloat = 10.0
    """How often workers take new answers into account."""
