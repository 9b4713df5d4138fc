"""A fitted model as a policy of the simulated marketplace."""

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.model.fitted import SlateModel
from slatewise.simulation.arrays import Ints
from slatewise.slates.dense import DenseRanker
from slatewise.slates.strategies import Strategy
from slatewise.slates.users import Users

_SHARING = 8
"""Users who share posterior draws. All together would be cheapest, but then the luck of one draw
would be that of a whole arm, and no interval over users would know."""


class ModelPolicy:
    """Fills slates by a strategy over a posterior, without what a user has clicked before.

    A marketplace tells a policy of clicks alone. So a model that also asks what else users were
    shown is refused; what is popular is what was so at the end of the log that it learned from.
    """

    def __init__(self, model: SlateModel, strategy: Strategy, log: SlateDataset) -> None:
        asked = [*model.terms.that_rank("items met"), *["evidence"] * bool(model.config.evidence)]
        if asked:
            raise SlatewiseError(
                f"the model asks for {' and '.join(asked)}: all that users saw, not clicks alone.",
                "In online studies leave these out of [model].",
            )
        if model.item_ids != list(range(len(model.item_ids))):
            raise SlatewiseError(
                "the model's items are not those of a marketplace.", "Train it on its log."
            )
        self._ranker = DenseRanker.after(model, log)
        self._strategy = strategy

    def recommend(self, history: Ints, k: int, rng: np.random.Generator) -> Ints:
        """Return slates [B, k] for users with the given click histories [B, T]."""
        clicks = [row[row >= 0] for row in history]
        slates = np.empty((len(clicks), k), dtype=np.int64)
        for start in range(0, len(clicks), _SHARING):
            rows = slice(start, start + _SHARING)
            seed = int(rng.integers(1 << 31))
            users = Users.of_clicks(clicks[rows], seed, show_clicked=False)
            slates[rows] = self._strategy.slates(self._ranker, users, k)
        return slates
