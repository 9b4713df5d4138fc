"""How readily a user has clicked so far: some click on most slates, some on hardly any.

With c clicks in the n slates before, of which an average user would have clicked e = Σ rate of
source, and a prior worth `strength` slates at the overall rate p,

    x = logit((c + strength · p) / (n + strength)) − logit((e + strength · p) / (n + strength)):

0 for a new user and for one who clicks as often as average, positive for one who clicks more. It
belongs to the no-click option (whose utility falls with it), not to any item. Comparing with the
same sources, a user of many search slates is not taken for an eager one.
"""

from typing import Annotated, Final

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from slatewise.config import Config
from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.features.showings import showing_starts, training_counts
from slatewise.features.user_history import UserHistory

Rate = Annotated[float, Field(gt=0, lt=1)]

STRENGTHS: Final = tuple(2.0**power for power in range(-1, 11))
"""Those that `fit` tries: from half a slate to a thousand, with which nothing is learned."""

MOST_USERS: Final = 20_000
"""Users that the strength is fitted on, at most."""


class Propensity(Config):
    """The numbers that the feature is computed with; saved as they are."""

    rates: tuple[Rate, ...]
    """Share of training slates with a click, by source."""
    rate: Rate
    """The same over all sources."""
    strength: Annotated[float, Field(gt=0)]
    """How many slates the prior is worth."""

    @classmethod
    def fit(
        cls, dataset: SlateDataset, *, strength: float | None = None, seed: int = 0
    ) -> "Propensity":
        """Count the rates in the training part; find the strength there if none is given.

        The strength of greatest likelihood: each click of at most 20,000 users, drawn with the
        seed, predicted from the slates before it.
        """
        counts = training_counts(dataset)
        if not counts.sum():
            raise SlatewiseError("the dataset has no training interactions.", "Split it again.")
        rates = (counts[:, 1] + 0.5) / (counts[:, 0] + 1)
        rate = (counts[:, 1].sum() + 0.5) / (counts[:, 0].sum() + 1)
        start = cls(rates=tuple(rates.tolist()), rate=float(rate), strength=strength or 1.0)
        return start if strength is not None else start._strengthened(_drawn(dataset, seed))

    def _strengthened(self, training: Interactions) -> "Propensity":
        found = [self.model_copy(update={"strength": strength}) for strength in STRENGTHS]
        return max(found, key=lambda one: one.log_likelihood(training))

    def log_likelihood(self, interactions: Interactions) -> float:
        """Return the log-probability of each click or none, given only source and propensity."""
        rates = torch.tensor(self.rates, dtype=torch.float64)[interactions.sources.long()]
        odds = rates.logit() + self.features(interactions).double()
        signs = torch.where(interactions.clicks >= 0, 1.0, -1.0)
        return float(torch.nn.functional.logsigmoid(signs * odds).sum())

    def features(self, interactions: Interactions) -> Tensor:
        """Return x before each interaction, from the user's earlier ones: [N] float32.

        Slates of unknown sources count at the rate of all, as in `after`.
        """
        from slatewise.features import _numba  # noqa: PLC0415 (numba takes time to load)

        out = np.empty(len(interactions.clicks), dtype=np.float32)
        sources = interactions.sources.cpu().numpy()
        known = (sources >= 0) & (sources < len(self.rates))
        _numba.propensity(
            interactions.user_offsets.cpu().numpy(),
            showing_starts(interactions).numpy(),
            np.where(known, sources, len(self.rates)),
            interactions.clicks.cpu().numpy(),
            np.array([*self.rates, self.rate]),
            self.rate,
            self.strength,
            out,
        )
        return torch.from_numpy(out).to(interactions.clicks.device)

    def after(self, history: UserHistory) -> float:
        """Return x for the next slate of a user; slates of unknown sources count at the rate."""
        from slatewise.features import _numba  # noqa: PLC0415 (numba takes time to load)

        clicks = np.bincount(history.click_slates, minlength=len(history))
        counts = np.maximum(clicks, 1)  # each click is an interaction, as in a log
        rates = np.array([*self.rates, self.rate])[history.sources]  # −1: the rate of all
        expected = float((counts * rates).sum())
        total, clicked = int(counts.sum()), int(clicks.sum())
        return float(_numba.propensity_value(total, clicked, expected, self.rate, self.strength))


def _drawn(dataset: SlateDataset, seed: int) -> Interactions:
    """Return the training interactions of some users."""
    users: npt.NDArray[np.int64] = np.flatnonzero(dataset.train_end > 0)
    users = np.random.default_rng(seed).permutation(users)[:MOST_USERS]
    index = torch.from_numpy(users)
    ends = torch.from_numpy(dataset.train_end).long()[index]
    return dataset.interactions().of_users(index, ends)
