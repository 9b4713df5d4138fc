"""The weights by which terms rank the catalogue: a choice of the next click among all items.

Once everything else is fitted, held-out clicks say how much each feature counts beside the latent
utility when all items compete, a multinomial logit with few weights:

    log P(i) = κ · (relevance(z, v_i) + b_i) + Σ_p w_p x_p(i, user, time) − log Σ_I …

Its maximum is unique and found by Newton's method in seconds. Rankings divide by κ: they stay what
they are but for the weights ω = w / κ. Laplace's approximation, given κ, is their posterior.

Of a large catalogue, the sum has all items with large terms: those that the user's features lead
to, the nearest, and those clicked most. The rest is estimated from a uniform sample.

Shapes: M clicks, C clicks at once, I items, K candidates of a click, P features of all terms.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array, offsets_of
from slatewise.features.linear_choice import Doubles, LinearChoice
from slatewise.features.turnover import items_stay
from slatewise.features.user_history import Histories, UserHistory
from slatewise.model.config import ModelConfig
from slatewise.model.posterior import Posterior
from slatewise.model.profiles import known_profiles
from slatewise.model.ranking_weights import RankingWeights
from slatewise.model.steps import ClickSteps
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.term import Floats
from slatewise.model.utility import ranking_utilities
from slatewise.training.sizes import LogSize
from slatewise.training.validation import held_out

_CLICKS: Final = 2_048
"""Most clicks that are looked at."""
_SCORES: Final = 1 << 30
"""Most latent utilities computed for them: of a million items, about a thousand clicks."""
_ALL: Final = 1_536
"""Items of a catalogue up to which all are candidates."""
_NEAREST, _POPULAR, _SAMPLED = 256, 256, 512
"""Candidates in a larger one: of greatest latent utility, of most clicks, and drawn uniformly."""
_CELLS: Final = 1 << 22
"""Latent utilities held at once."""
_LEAST_SCALE: Final = 0.1
"""κ at least: divided by less, what terms add would leave exp(utility) beyond all numbers."""


class _Choice(NamedTuple):
    """A click among its candidates."""

    features: Doubles
    """[K, 1 + P] the latent utility first"""
    log_weights: Doubles
    """[K] log of how many items each candidate stands for"""
    clicked: int
    """which of them"""


def ranks_by_next_click(config: ModelConfig, dataset: SlateDataset) -> bool:
    """Return whether weights of the next click rank, instead of those of choices within slates.

    If it is left open, they rank where a click is one among all items: for the all-item
    likelihood and logs of clicks alone. And where items come and go, as news do: choices within
    slates never had an item that was gone, and so cannot tell it from others.
    """
    if config.ranking != "auto":
        return config.ranking == "next-click"
    if config.likelihood == "all-item" or LogSize.of(dataset).clicks_only:
        return True
    return not items_stay(dataset)


def fit_ranking(
    posterior: Posterior, terms: FittedTerms, dataset: SlateDataset, seed: int
) -> RankingWeights | None:
    """Fit the weights that rank to validation clicks; None where there is nothing to fit."""
    if not posterior.parts.ranking_names:
        return None
    config = posterior.config
    clicks = _HeldOutClicks(posterior, terms, dataset, np.random.default_rng([seed, 5]))
    with torch.no_grad():
        choices = list(clicks.choices())
    if not choices:
        return None
    offsets = offsets_of(np.array([len(choice.features) for choice in choices]))
    features = np.concatenate([choice.features for choice in choices])
    shares = np.zeros(len(features))
    shares[offsets[:-1] + [choice.clicked for choice in choices]] = 1
    expected = [terms.by_name[n].weights_expected(config) for n in posterior.parts.ranking_names]
    columns = features.shape[1] - 1
    logit = LinearChoice(
        features,
        offsets,
        shares,
        mean=np.concatenate([[1.0], *expected]),
        sd=np.array([1.0] + [config.sigma_weights] * columns),
        known=np.concatenate([choice.log_weights for choice in choices]),
    )
    best = logit.fit(least=_LEAST_SCALE)
    # Of the weights given κ: a latent utility that hardly counts would leave ω without bounds.
    spread = np.linalg.cholesky(np.linalg.inv(logit.precision(best)[1:, 1:]))
    mean, root = (torch.from_numpy(array / best[0]).float() for array in (best[1:], spread))
    return RankingWeights(mean, root)


class _HeldOutClicks:
    """Validation clicks, drawn at random where there are many."""

    def __init__(
        self,
        posterior: Posterior,
        terms: FittedTerms,
        dataset: SlateDataset,
        rng: np.random.Generator,
    ) -> None:
        self._terms = [terms.by_name[name] for name in posterior.parts.ranking_names]
        self._lookups = {
            term.name: term.at_times(dataset) for term in self._terms if term.ranks == "all items"
        }
        self._parameters = posterior.expected()
        self._num_items = dataset.num_items
        everything = dataset.interactions()
        users = np.flatnonzero(dataset.valid_end > dataset.train_end)
        drawn = torch.from_numpy(rng.permutation(users)[:_CLICKS])
        self._batch = everything.of_users(drawn, everything.valid_end[drawn])
        found = (held_out(self._batch).bool() & (self._batch.clicks >= 0)).nonzero()[:, 0].numpy()
        most = max(1, min(_CLICKS, _SCORES // self._num_items))
        self._rows = torch.from_numpy(np.sort(rng.permutation(found)[:most]))  # [M]
        self._popular = _most_frequent(self._batch.clicked_items[torch.from_numpy(found)])
        self._sampled = np.sort(rng.permutation(self._num_items)[:_SAMPLED])

    def choices(self) -> Iterator[_Choice]:
        """Yield the clicks, each among its candidates."""
        batch, items = self._batch, self._num_items
        steps = ClickSteps.of(batch, self._parameters.evidence)
        profiles = known_profiles(self._parameters, batch, steps)
        histories = Histories(batch)
        for rows in torch.split(self._rows, max(1, _CELLS // items)):
            latent = ranking_utilities(self._parameters, profiles[steps.state_of[rows]], 0.0)
            nearest = latent.topk(min(_NEAREST, items)).indices  # [C, 256]
            for number, history in enumerate(histories.before(rows)):
                row = int(rows[number])
                yield self._choice(
                    latent[number].numpy(),
                    nearest[number].numpy(),
                    history,
                    int(batch.times[row]),
                    int(batch.clicked_items[row]),
                )

    def _choice(
        self, latent: Floats, nearest: Int64Array, history: UserHistory, time: int, clicked: int
    ) -> _Choice:
        met = {t.name: t.met(history) for t in self._terms if t.ranks == "items met"}
        led_to = [items for items, _ in met.values()]
        candidates, log_weights = self._candidates([[clicked], nearest, *led_to])
        columns = [latent[candidates, None]]
        for term in self._terms:
            if term.name in met:
                columns.append(_spread(candidates, *met[term.name]))
            else:
                moment = np.full(len(candidates), time)
                columns.append(self._lookups[term.name](candidates, moment))
        features = np.concatenate(columns, axis=1, dtype=np.float64)
        return _Choice(features, log_weights, int(np.searchsorted(candidates, clicked)))

    def _candidates(self, certain: Sequence[npt.ArrayLike]) -> tuple[Int64Array, Doubles]:
        """Return items [K], ascending, and the log of how many items each stands for."""
        if self._num_items <= _ALL:
            return np.arange(self._num_items), np.zeros(self._num_items)
        sure = np.unique(np.concatenate([*certain, self._popular]))
        rest = np.setdiff1d(self._sampled, sure)
        items = np.concatenate([sure, rest]).astype(np.int64)
        log_weights = np.zeros(len(items))
        if len(rest):
            log_weights[len(sure) :] = np.log((self._num_items - len(sure)) / len(rest))
        order = np.argsort(items)
        return items[order], log_weights[order]


def _spread(candidates: Int64Array, items: Int64Array, features: Floats) -> Floats:
    """Return the features [m, P] of items [m], 0 for the other candidates: [K, P]."""
    out = np.zeros((len(candidates), features.shape[1]), np.float32)
    out[np.searchsorted(candidates, items)] = features
    return out


def _most_frequent(items: Tensor) -> Int64Array:
    found, counts = np.unique(items.numpy(), return_counts=True)
    return found[np.argsort(-counts, kind="stable")[:_POPULAR]].astype(np.int64)
