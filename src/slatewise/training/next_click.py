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
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array, offsets_of
from slatewise.features.linear_choice import Bools, Doubles, LinearChoice
from slatewise.features.turnover import items_stay
from slatewise.features.user_history import Histories
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
_AT_ONCE: Final = 64
"""Most clicks whose candidates are described at once."""
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


class _Choices(NamedTuple):
    """Clicks with all their candidates, one after the other: F of them."""

    features: Doubles
    """[F, 1 + P] the latent utility first"""
    log_weights: Doubles
    """[F]"""
    offsets: Int64Array
    """[M + 1] where the candidates of each click begin"""
    shares: Doubles
    """[F] 1 for what was clicked"""

    @classmethod
    def of(cls, choices: Sequence[_Choice]) -> "_Choices":
        """Put clicks one after the other."""
        features = np.concatenate([choice.features for choice in choices])
        offsets = offsets_of(np.array([len(choice.features) for choice in choices]))
        shares = np.zeros(len(features))
        shares[offsets[:-1] + [choice.clicked for choice in choices]] = 1
        log_weights = np.concatenate([choice.log_weights for choice in choices])
        return cls(features, log_weights, offsets, shares)


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
    """Fit the weights by which terms rank to validation clicks; None if there is nothing to fit.

    Those of all terms where the next click ranks; else only those of terms of the first stage,
    which have no others. Where the best are ranked again, the latter count no more: there, the
    other terms have the weights that they have without them.
    """
    names = posterior.parts.ranking_names
    first = [name for name in names if posterior.parts.terms[name].first_stage]
    posterior.set_to_zero(first)
    together = names if ranks_by_next_click(posterior.config, dataset) else first
    if not together:
        return None
    clicks = _HeldOutClicks(posterior, terms, dataset, np.random.default_rng([seed, 5]))
    with torch.no_grad():
        choices = list(clicks.choices())
    if not choices:
        return None
    stacked = _Choices.of(choices)
    if not first:
        return _fitted(posterior, terms, stacked, together)
    others = [name for name in together if name not in first]
    again = _fitted(posterior, terms, stacked, others)
    return replace(_fitted(posterior, terms, stacked, together, again), again=again)


def _fitted(
    posterior: Posterior,
    terms: FittedTerms,
    choices: _Choices,
    some: Sequence[str],
    start: RankingWeights | None = None,
) -> RankingWeights:
    """Return the weights of all terms, those of `some` fitted, given the others.

    `start` are weights to begin the search from.
    """
    names, config = posterior.parts.ranking_names, posterior.config
    own = [posterior.shared[name] for name in names]
    mean = np.concatenate([part.mean.detach().double().numpy() for part in own])  # [P]
    root = np.diag(np.concatenate([part.scale.detach().double().numpy() for part in own]))
    expected = np.concatenate([terms.by_name[name].weights_expected(config) for name in names])
    free = np.isin(np.repeat(names, [len(part.mean) for part in own]), some)
    if free.any():
        logit = _logit(choices, mean, free, expected[free], config.sigma_weights)
        near = expected if start is None else start.mean.double().numpy()
        best = logit.fit(least=_LEAST_SCALE, start=np.append(1.0, near[free]))
        # Of the weights given κ: a latent utility that hardly counts would leave ω without bounds.
        spread = np.linalg.cholesky(np.linalg.inv(logit.precision(best)[1:, 1:]))
        mean[free], root[np.ix_(free, free)] = best[1:] / best[0], spread / best[0]
    return RankingWeights(torch.from_numpy(mean).float(), torch.from_numpy(root).float())


def _logit(
    choices: _Choices, weights: Doubles, free: Bools, expected: Doubles, sd: float
) -> LinearChoice:
    """Return the choice by κ and the `free` weights [Q] of all [P], given the others.

    κ times what latent utility and the other terms say is one part of a utility.
    """
    features = choices.features
    said = features[:, 0]
    if not free.all():
        said = said + features[:, 1:] @ np.where(free, 0.0, weights)
    return LinearChoice(
        np.concatenate([said[:, None], features[:, 1:][:, free]], axis=1),
        choices.offsets,
        choices.shares,
        mean=np.append(1.0, expected),
        sd=np.append(1.0, np.full(len(expected), sd)),
        known=choices.log_weights,
    )


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
        histories, clicked = Histories(batch), batch.clicked_items
        # Some clicks at once: a look-up for many costs far less than many look-ups.
        for rows in torch.split(self._rows, min(max(1, _CELLS // items), _AT_ONCE)):
            latent = ranking_utilities(self._parameters, profiles[steps.state_of[rows]], 0.0)
            nearest = latent.topk(min(_NEAREST, items)).indices.numpy()  # [C, 256]
            of_terms = [t for t in self._terms if t.ranks == "items met"]
            met = [{t.name: t.met(one) for t in of_terms} for one in histories.before(rows)]
            led_to = [[own for own, _ in one.values()] for one in met]
            own_click = clicked[rows].tolist()
            options = [
                self._candidates([[item], near, *others])
                for item, near, others in zip(own_click, nearest, led_to, strict=True)
            ]
            known = self._looked_up([one for one, _ in options], batch.times[rows].numpy())
            for number, (candidates, log_weights) in enumerate(options):
                parts = [latent[number].numpy()[candidates, None]]
                for term in self._terms:
                    found = met[number].get(term.name)
                    parts.append(
                        known[term.name][number] if found is None else _spread(candidates, *found)
                    )
                features = np.concatenate(parts, axis=1, dtype=np.float64)
                at = int(np.searchsorted(candidates, own_click[number]))
                yield _Choice(features, log_weights, at)

    def _looked_up(
        self, candidates: Sequence[Int64Array], times: Int64Array
    ) -> dict[str, list[Floats]]:
        """Return the features of candidates at times [C], by the names of terms that rank all."""
        lengths = np.array([len(one) for one in candidates])
        asked = np.concatenate(candidates), np.repeat(times, lengths)
        cuts = lengths.cumsum()[:-1]
        return {name: np.split(look_up(*asked), cuts) for name, look_up in self._lookups.items()}

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
