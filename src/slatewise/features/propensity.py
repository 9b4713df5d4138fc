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
from slatewise.features.showings import Showing, showing_starts, training_counts
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
        """Return x before each interaction, from the user's earlier ones: [N] float32."""
        from slatewise.features import _numba  # noqa: PLC0415 (numba takes time to load)

        out = np.empty(len(interactions.clicks), dtype=np.float32)
        bad = _numba.propensity(
            interactions.user_offsets.cpu().numpy(),
            showing_starts(interactions).numpy(),
            interactions.sources.cpu().numpy(),
            interactions.clicks.cpu().numpy(),
            np.array(self.rates),
            self.rate,
            self.strength,
            out,
        )
        if bad >= 0:
            raise ValueError(f"interaction {bad} has a source that the rates do not know")
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


class PropensityState:
    """One user's propensity as serving keeps it."""

    def __init__(self, propensity: Propensity) -> None:
        self._propensity = propensity
        self._count, self._clicks, self._expected = 0, 0, 0.0

    def add(self, showing: Showing) -> None:
        """Take a slate and its clicks into account; each click is an interaction, as in a log."""
        for _ in range(max(1, len(showing.clicks))):
            self._count += 1
            self._expected += self._propensity.rates[showing.source]
        self._clicks += len(showing.clicks)

    def feature(self) -> np.float32:
        """Return x for the next slate."""
        from slatewise.features import _numba  # noqa: PLC0415 (numba takes time to load)

        known = self._propensity
        value = _numba.propensity_value(
            self._count, self._clicks, self._expected, known.rate, known.strength
        )
        return np.float32(value)


def _drawn(dataset: SlateDataset, seed: int) -> Interactions:
    """Return the training interactions of some users."""
    users: npt.NDArray[np.int64] = np.flatnonzero(dataset.train_end > 0)
    users = np.random.default_rng(seed).permutation(users)[:MOST_USERS]
    index = torch.from_numpy(users)
    ends = torch.from_numpy(dataset.train_end).long()[index]
    return dataset.interactions().of_users(index, ends)
