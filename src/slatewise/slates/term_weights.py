"""The posterior of the weights of terms, as rankings and slates use it.

J draws, P features of a term.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from slatewise.model.parameters import Parameters
from slatewise.model.posterior import Posterior
from slatewise.model.ranking_weights import RankingWeights

Floats = npt.NDArray[np.float32]
Weights = Mapping[str, npt.NDArray[Any]]
"""The weights [..., P] of each term, by name."""


@dataclass(frozen=True)
class TermWeights:
    """The posterior of the weights of terms, by their names."""

    means: Weights
    _scales: Weights
    """of weights that are independent"""
    _root: Floats | None
    """of the others, side by side: a root R of their covariance R Rᵀ"""
    sharpness: float
    """κ, by which what all parts of the model say is multiplied in a slate"""

    @classmethod
    def in_slates(cls, posterior: Posterior, names: Iterable[str]) -> "TermWeights":
        """Read off those of choices within slates, for some terms."""
        own = {name: posterior.shared[name] for name in names}
        return cls(
            {name: _array(part.mean) for name, part in own.items()},
            {name: _array(part.scale) for name, part in own.items()},
            None,
            1.0 if posterior.pool is None else posterior.pool.sharpness,
        )

    @classmethod
    def of_rankings(cls, posterior: Posterior, names: Iterable[str]) -> "TermWeights":
        """Read off those by which all items are ranked."""
        return cls._of_next_click(posterior, names, posterior.ranking)

    @classmethod
    def in_made_slates(cls, posterior: Posterior, names: Iterable[str]) -> "TermWeights":
        """Read off those of slates that are made of the best of a ranking.

        Where the next click ranks, its weights do so among candidates too: choices within slates
        say nothing of items that were never shown, and would bring up those that came later.
        """
        ranking = posterior.ranking
        return cls._of_next_click(posterior, names, ranking and (ranking.again or ranking))

    @classmethod
    def _of_next_click(
        cls, posterior: Posterior, names: Iterable[str], ranking: RankingWeights | None
    ) -> "TermWeights":
        found = cls.in_slates(posterior, names)
        if ranking is None:
            return found
        together = posterior.by_term(posterior.parts.ranking_names, ranking.mean)
        means = {name: _array(mean) for name, mean in together.items()}
        alone = {name: mean for name, mean in found.means.items() if name not in means}
        scales = {name: found._scales[name] for name in alone}
        return cls(means | alone, scales, _array(ranking.root), found.sharpness)

    def draws(self, count: int, rng: np.random.Generator) -> Weights:
        """Draw the weights J times: [J, P] of each term."""
        drawn = {}
        if self._root is not None:
            names = [name for name in self.means if name not in self._scales]
            ends = np.cumsum([len(self.means[name]) for name in names])
            noise = rng.standard_normal((count, len(self._root))) @ self._root.T  # [J, ΣP]
            parts = np.split(noise, ends[:-1], axis=1)
            drawn = {n: self.means[n] + part for n, part in zip(names, parts, strict=True)}
        for name, scale in self._scales.items():
            mean = self.means[name]
            drawn[name] = mean + scale * rng.standard_normal((count, *mean.shape))
        return drawn


def weights_by_term(posterior: Posterior, parameters: Parameters) -> dict[str, Tensor]:
    """Return the weights [P] by which each term ranks, by its name."""
    if parameters.ranking_weights is not None:
        return posterior.by_term(posterior.parts.ranking_names, parameters.ranking_weights)
    if parameters.cell_weights is None:
        return {}
    return posterior.by_term(posterior.parts.weight_names("items"), parameters.cell_weights)


def _array(tensor: Tensor) -> Floats:
    return np.asarray(tensor.detach().cpu().numpy())
