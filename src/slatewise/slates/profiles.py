"""Where one user is, by the posterior mean and in posterior draws, in a fraction of a millisecond.

The dynamics have the equations: `Dynamics.follow` is for one user and J draws of everything that
moves her, where `Dynamics.profiles` is for a batch of users who share their parameters.

Shapes: E events, which are clicks or slates without one (see `history`), J draws, D dimensions.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from slatewise.compiled.normals import normals_around
from slatewise.model.posterior import Posterior

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


class UserDynamics:
    """What the posterior knows of how clicks, and slates without one, move users."""

    def __init__(self, posterior: Posterior) -> None:
        self._parts = posterior.parts
        self._moments = {
            name: (
                posterior.shared[name].mean.detach().cpu().numpy(),
                posterior.shared[name].scale.detach().cpu().numpy(),
            )
            for name in posterior.moving
        }
        self.source_index: Ints = posterior.evidence.source_index.cpu().numpy()
        """[number of sources] index of each in `SlateEvidence.fractions`, −1 for none"""

    def mean(self, vectors: Floats, kinds: Ints) -> Floats:
        """Return the profile by the mean, after events with vectors [E, D] and kinds [E]: [D]."""
        means = {name: mean[None] for name, (mean, _) in self._moments.items()}
        return np.asarray(self._follow(vectors[None], kinds, means, None)[0])

    def draws(self, vectors: Floats, kinds: Ints, rng: np.random.Generator) -> Floats:
        """Return the profile in J draws, after events with vectors [J, E, D]: [J, D]."""
        return self._follow(vectors, kinds, self._drawn(len(vectors), rng), rng)

    def drawn_once(self, draws: int, seed: int) -> Callable[[Floats, Ints], Floats]:
        """Draw all that moves users J times, once; return what follows events [J, E, D] with them.

        For numbers that are to differ between users by what they did, and not by chance.
        """
        drawn = self._drawn(draws, np.random.default_rng(seed))
        return lambda vectors, kinds: self._follow(
            vectors, kinds, drawn, np.random.default_rng(seed)
        )

    def _drawn(self, draws: int, rng: np.random.Generator) -> dict[str, Floats]:
        return {
            name: normals_around(rng, mean, scale, draws)
            for name, (mean, scale) in self._moments.items()
        }

    def _follow(
        self,
        vectors: Floats,
        kinds: Ints,
        values: Mapping[str, Floats],
        rng: np.random.Generator | None,
    ) -> Floats:
        start = self._parts.initial_state.single_user(vectors, kinds, values["initial_state"], rng)
        return self._parts.dynamics.follow(vectors, kinds, start, values)
