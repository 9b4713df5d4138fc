"""Where one user is, by the posterior mean and in posterior draws, in a fraction of a millisecond.

The same equations as `model.dynamics`, for one user and J draws of everything that moves her; there
they are for a batch of users who share their parameters, and take a hundred times as long for one.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch

from slatewise.data.interactions import Interactions
from slatewise.model.posterior import Posterior
from slatewise.model.predicting import present_profiles

Floats = npt.NDArray[np.float32]

_compile: Callable[..., Any] = numba.njit(
    cache=True, nogil=True, fastmath=True, error_model="numpy"
)


class UserDynamics:
    """What the posterior knows of how clicks move users."""

    def __init__(self, posterior: Posterior) -> None:
        self._posterior = posterior
        self._parts = {
            name: (part.mean.detach().cpu().numpy(), part.scale.detach().cpu().numpy())
            for name, part in posterior.shared.items()
            if name in ("initial_state", "drift_logit", "from_item", "from_state", "output")
        }

    def mean(self, vectors: Floats) -> Floats:
        """Return the profile after clicks on items with vectors [C, D], by the mean: [D]."""
        if self._posterior.config.initial_state == "amortised":
            return np.asarray(self._by_torch(vectors[None], None)[0])
        means = {name: mean[None] for name, (mean, _) in self._parts.items()}
        return np.asarray(_follow(vectors[None], means)[0])

    def draws(self, vectors: Floats, rng: np.random.Generator) -> Floats:
        """Return the profile in J draws, after clicks with vectors [J, C, D]: [J, D]."""
        if self._posterior.config.initial_state == "amortised":
            return self._by_torch(vectors, int(rng.integers(1 << 62)))
        drawn = {
            name: _normals(rng, len(vectors), mean, scale)
            for name, (mean, scale) in self._parts.items()
        }
        return _follow(vectors, drawn)

    def _by_torch(self, vectors: Floats, seed: int | None) -> Floats:
        """Do the same through the model's own functions; slow, for a state that is averaged."""
        posterior, clicks = self._posterior, vectors.shape[1]
        batch = Interactions.of_clicks(torch.arange(clicks), torch.tensor([0, clicks]))
        items = torch.from_numpy(vectors)
        with torch.no_grad():
            if seed is None:
                mean = {name: part.mean for name, part in posterior.shared.items()}
                parameters = posterior.parameters(items[0], mean)
                return present_profiles(parameters, posterior.config, batch).numpy()
            seeded = torch.Generator().manual_seed(seed)
            parameters = posterior.samples_around(items, seeded)
            return present_profiles(parameters, posterior.config, batch, seeded)[:, 0].numpy()


def _normals(rng: np.random.Generator, draws: int, mean: Floats, scale: Floats) -> Floats:
    """Draw [J, …] around a mean."""
    values = rng.standard_normal((draws, *mean.shape), dtype=np.float32)
    values *= scale
    values += mean
    return values


def _follow(vectors: Floats, parts: dict[str, Floats]) -> Floats:
    """Go through clicks with vectors [J, C, D], with parameters of each draw: [J, D]."""
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    state = np.array(parts["initial_state"], dtype=np.float32)  # [J, d_h]
    if "drift_logit" in parts:
        drift = 1 / (1 + np.exp(-parts["drift_logit"][:, None]))  # [J, 1]
        for step in range(vectors.shape[1]):
            state += (1 - drift) * (vectors[:, step] - state)
        return state
    profiles = np.empty((len(vectors), vectors.shape[2]), np.float32)
    _gru(vectors, parts["from_item"], parts["from_state"], parts["output"], state, profiles)
    return profiles


@_compile
def _gru(
    vectors: Floats,
    from_item: Floats,
    from_state: Floats,
    output: Floats,
    state: Floats,
    profiles: Floats,
) -> None:
    """Advance state [J, d_h] through vectors [J, C, D], and leave the profiles [J, D]."""
    draws, clicks, dims = vectors.shape
    hidden = state.shape[1]
    inputs = np.empty(3 * hidden, np.float32)
    own = np.empty(3 * hidden, np.float32)
    for j in range(draws):
        for step in range(clicks):
            for row in range(3 * hidden):
                total = np.float32(0)
                for d in range(dims):
                    total += from_item[j, row, d] * vectors[j, step, d]
                inputs[row] = total
                total = np.float32(0)
                for d in range(hidden):
                    total += from_state[j, row, d] * state[j, d]
                own[row] = total
            for h in range(hidden):
                reset = 1 / (1 + np.exp(-(inputs[h] + own[h])))
                update = 1 / (1 + np.exp(-(inputs[hidden + h] + own[hidden + h])))
                new = np.tanh(inputs[2 * hidden + h] + reset * own[2 * hidden + h])
                state[j, h] = new + update * (state[j, h] - new)
        for d in range(dims):
            total = np.float32(0)
            for h in range(hidden):
                total += output[j, d, h] * state[j, h]
            profiles[j, d] = total
