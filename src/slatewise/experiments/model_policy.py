"""A fitted model as a policy of the simulated marketplace."""

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.model.fitted import SlateModel
from slatewise.simulation.arrays import Ints
from slatewise.slates.logs import refresh_from
from slatewise.slates.maker import SlateMaker
from slatewise.slates.recommender import Recommender
from slatewise.slates.strategies import Strategy
from slatewise.slates.users import Users


class ModelPolicy:
    """Fills slates as the service would, without what a user has clicked before.

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
        self._maker, self._strategy = maker_after(model, log), strategy

    def recommend(self, history: Ints, k: int, rng: np.random.Generator) -> Ints:
        """Return slates [B, k] for users with the given click histories [B, T]."""
        clicks = [row[row >= 0] for row in history]
        users = Users.of_clicks(clicks, int(rng.integers(1 << 31)), show_clicked=False)
        return self._maker.rows(users, k, self._strategy)


def maker_after(model: SlateModel, log: SlateDataset) -> SlateMaker:
    """Return what makes slates by a model right after everything in a log of its items."""
    recommender = Recommender(model)
    if model.terms.that_rank("all items"):
        refresh_from(recommender, log)
    return recommender.maker
