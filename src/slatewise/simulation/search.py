"""Search: the slates that users ask for, near their intent but not exactly there."""

from typing import Protocol

import numpy as np

from slatewise.simulation.arrays import Ints
from slatewise.simulation.catalogue import Catalogue, repeated
from slatewise.simulation.choice import distances
from slatewise.simulation.config import SearchConfig
from slatewise.simulation.intent import Users, satiated
from slatewise.simulation.space import Space


class OnOffer(Protocol):
    """What can be found: a whole catalogue, or the items alive."""

    def draw_in(self, groups: Ints, rng: np.random.Generator) -> Ints:
        """Draw an item of each of `groups` [B, C], −1 where there is none: [B, C]."""

    def complete(self, items: Ints, k: int, rng: np.random.Generator) -> Ints:
        """Return the first k distinct items of each row of [B, C], and others where too few."""


class Search:
    """A search engine that gets a noisy query and ranks its candidates with some noise."""

    def __init__(self, config: SearchConfig, catalogue: Catalogue, space: Space) -> None:
        self._config, self._catalogue, self._space = config, catalogue, space

    def slates(
        self,
        users: Users,
        who: Ints,
        k: int,
        rng: np.random.Generator,
        on_offer: OnOffer | None = None,
    ) -> Ints:
        """Return what the users `who` [B] find now, best first: [B, k].

        Candidates are drawn from what is `on_offer`, or from the whole catalogue: by exposure from
        the intent's group, from groups near it and from anywhere, less the items just clicked, and
        ranked by distance to the query.
        """
        on_offer = self._catalogue if on_offer is None else on_offer
        state = users.state[who]  # [B, D]
        candidates = on_offer.draw_in(self._groups(users.group[who], rng), rng)  # [B, C]
        noise = rng.standard_normal(state.shape, dtype=np.float32)
        query = state + np.float32(self._config.query_noise / np.sqrt(state.shape[1])) * noise
        score = distances(query, self._space.vectors[candidates])  # [B, C]
        blur = rng.standard_normal(score.shape, dtype=np.float32)
        score += np.float32(self._config.rank_noise) * blur
        unwanted = repeated(candidates) | satiated(users.recent[who], candidates)
        score[unwanted | (candidates < 0)] = np.inf
        best = np.argsort(score, axis=1)[:, :k]
        usable = np.isfinite(np.take_along_axis(score, best, axis=1))
        found = np.where(usable, np.take_along_axis(candidates, best, axis=1), -1)
        return on_offer.complete(found, k, rng)

    def _groups(self, group: Ints, rng: np.random.Generator) -> Ints:
        """Return the groups to draw candidates from, for intents in `group` [B]: [B, C]."""
        users, count = len(group), self._config.candidates
        own = round(self._config.own_share * count)
        near = min(round(self._config.neighbour_share * count), count - own)
        which = rng.integers(self._space.neighbours.shape[1], size=(users, near))
        return np.hstack(
            [
                np.broadcast_to(group[:, None], (users, own)),
                self._space.neighbours[group[:, None], which],
                self._catalogue.draw_groups((users, count - own - near), rng),
            ]
        )
