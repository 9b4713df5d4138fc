"""Slates of many users at once, on any device that torch has: for files of users."""

import numpy as np
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.model.fitted import SlateModel
from slatewise.model.gaussian import Gaussian
from slatewise.model.parts import refuse_device, require_device
from slatewise.model.profiles import present_profiles
from slatewise.ranking.batched import BatchedAdditions, BatchedTable
from slatewise.slates.exact import ExactRanker
from slatewise.slates.interleaving import interleave
from slatewise.slates.users import Ints, Users

_TOGETHER = 512
"""Users whose profiles are drawn together."""


class BatchRanker:
    """A `Ranker` for users who may be shown everything but their own clicks.

    The law of a slate is that of `ExactRanker`. Users drawn together share the draws of what moves
    all users and of items that several of them clicked, so that their slates are not independent
    of each other; the items ranked are drawn for each. What terms add to a ranking by means comes
    from the CPU: once for all users, and for each of them the few items that she met.
    """

    def __init__(self, model: SlateModel, device: str, exact: ExactRanker | None = None) -> None:
        """Take a model; if terms of it rank, also the ranker of the CPU that knows of items."""
        require_device(device)
        posterior, parts = model.posterior, model.posterior.parts
        refuse_device((parts.relevance, parts.dynamics, parts.initial_state), device, "ranked")
        _require_distance(model, exact)
        self._device = torch.device(device)
        self._posterior = posterior
        self._items = _moved(posterior.items, device)
        self._shared = {
            name: _moved(part, device)
            for name, part in posterior.shared.items()
            if name not in posterior.prior.learned
        }
        vectors = slice(model.config.dimensions)
        self._table = BatchedTable(self._items.mean[:, vectors], self._items.scale[:, vectors])
        self._ranking = _ranking_terms(model)
        self._exact = exact

    def by_mean(self, users: Users, k: int) -> Ints:
        """Rank by utility in closed form, at the mean and with the spread of items: [B, k]."""
        clicks, offsets = self._clicks(users)
        shared = {name: part.mean[None] for name, part in self._shared.items()}
        with torch.no_grad():
            profiles = self._profiles(clicks, offsets, shared, self._items.mean[None], None)[0]
            added = self._added(users) if self._ranking else None
            return _array(self._table.rank_means(profiles, k, self._excluded(users, 1), added))

    def by_draws(self, users: Users, k: int, draws: int) -> Ints:
        """Rank by relevance in J posterior draws each: [B, J, k]."""
        if self._ranking:
            raise SlatewiseError(
                f"draws of a model with {', '.join(self._ranking)} are made on the CPU.",
                "Leave out --device, or take the strategy greedy.",
            )
        _require_clicks_excluded(users)
        found = []
        with torch.no_grad():
            for part in users.pieces(_TOGETHER):
                clicks, offsets = self._clicks(part)
                generator = torch.Generator(self._device).manual_seed(part.seeds[0])
                items, local = torch.unique(clicks, return_inverse=True)
                vectors = self._items.rows(items).samples(draws, generator)  # [J, C, D]
                shared = {
                    name: gaussian.samples(draws, generator)
                    for name, gaussian in self._shared.items()
                }
                profiles = self._profiles(local, offsets, shared, vectors, generator)  # [J, B, D]
                rows = profiles.transpose(0, 1).reshape(-1, profiles.shape[-1])  # [B J, D]
                exclude = self._excluded(part, draws)
                ranked = self._table.rank_draws(rows, k, generator, exclude)
                found.append(ranked.view(len(part), draws, k))
        return _array(torch.cat(found)) if found else np.empty((0, draws, k), np.int64)

    def by_expectation(self, users: Users, k: int, draws: int) -> Ints:
        """Refuse."""
        raise SlatewiseError("posterior-mean slates are made on the CPU.", "Leave out --device.")

    def at_random(self, users: Users, k: int) -> Ints:
        """Refuse."""
        raise SlatewiseError("random slates are made on the CPU.", "Leave out --device.")

    def interleave(self, users: Users, rankings: Ints, k: int) -> Ints:
        """Merge rankings [B, J, L] into slates: [B, k]."""
        return interleave(rankings, k)

    def _clicks(self, users: Users) -> tuple[Tensor, Tensor]:
        """Return what users clicked, one after the other [K], and where each begins [B + 1]."""
        clicked = [np.asarray(history.clicked, np.int64) for history in users.histories]
        offsets = np.cumsum([0, *map(len, clicked)])
        flat = np.concatenate([np.empty(0, np.int64), *clicked])
        return torch.from_numpy(flat).to(self._device), torch.from_numpy(offsets).to(self._device)

    def _profiles(
        self,
        clicks: Tensor,
        offsets: Tensor,
        shared: dict[str, Tensor],
        items: Tensor,
        generator: torch.Generator | None,
    ) -> Tensor:
        """Return the profiles of B users after their clicks, in J draws: [J, B, D]."""
        parameters = self._posterior.parameters(items, shared)
        return present_profiles(parameters, Interactions.of_clicks(clicks, offsets), generator)

    def _added(self, users: Users) -> BatchedAdditions:
        """Return what biases and terms add by the posterior mean."""
        assert self._exact is not None
        table, terms = self._exact.table, self._exact.terms
        added = [terms.mean(history) for history in users.histories]
        every = np.arange(len(self._items.mean))
        of_items = np.asarray(table.biases_of(every), np.float64)
        if added and added[0].weights is not None:  # those of the mean: the same for all users
            of_items += table.features_of(every) @ np.asarray(added[0].weights, np.float64)
        met = [np.asarray(one.items, np.int64) for one in added]
        offsets = [np.empty(0), *(np.asarray(o.offsets) for o in added if o.offsets is not None)]
        rows = np.repeat(np.arange(len(met)), [len(items) for items in met])
        pairs = rows, np.concatenate([np.empty(0, np.int64), *met])
        first, second = (torch.from_numpy(part).to(self._device) for part in pairs)
        numbers = (of_items, np.concatenate(offsets))
        own, few = (torch.from_numpy(part).float().to(self._device) for part in numbers)
        return BatchedAdditions(own, (first, second), few)

    def _excluded(self, users: Users, draws: int) -> tuple[Tensor, Tensor]:
        """Return pairs of rows [B J] and the items that they are not shown."""
        excluded = [np.asarray(one.exclude, np.int64) for one in users.filters]
        row = np.repeat(np.arange(len(users)), [len(one) for one in excluded])
        rows = row[:, None] * draws + np.arange(draws)
        flat = np.concatenate([np.empty(0, np.int64), *excluded])
        pairs = rows.ravel(), np.repeat(flat, draws)
        first, second = (torch.from_numpy(part).to(self._device) for part in pairs)
        return first, second


def _moved(part: Gaussian, device: str) -> Gaussian:
    return Gaussian(part.mean.to(device), part.raw.to(device), part.sigma_max)


def _ranking_terms(model: SlateModel) -> list[str]:
    """Name the terms that act where all items are ranked."""
    terms = model.posterior.parts.terms.items()
    return [name for name, term in terms if term.ranks != "never"]


def _require_distance(model: SlateModel, exact: ExactRanker | None) -> None:
    """Refuse models whose rankings are more than a distance and what is added to it."""
    posterior = model.posterior
    ranking = _ranking_terms(model) if exact is None else []
    again = {name: term for name, term in model.terms.by_name.items() if term.in_lists}
    ranking += [name for name, term in again.items() if term.candidates]
    if posterior.parts.relevance.ranking != "distance":
        ranking.append(posterior.parts.relevance.name)
    if model.config.evidence:
        ranking.append("evidence")
    if ranking:
        raise SlatewiseError(
            f"slates of a model with {', '.join(ranking)} are made on the CPU.",
            "Leave out --device.",
        )


def _require_clicks_excluded(users: Users) -> None:
    # A clicked item has one vector in a draw, that which moved the user: it is not drawn again.
    for history, wanted in zip(users.histories, users.filters, strict=True):
        shown = np.setdiff1d(history.clicked, np.asarray(wanted.exclude, np.int64))
        if len(shown) or wanted.allow is not None or wanted.caps is not None:
            raise SlatewiseError(
                "slates with own clicks, lists to choose from or caps are made on the CPU.",
                "Leave out --device.",
            )


def _array(items: Tensor) -> Ints:
    return items.cpu().numpy().astype(np.int64)
