"""Where one user is, by the posterior mean and in posterior draws, in a fraction of a millisecond.

The same equations as `model.dynamics`, for one user and J draws of everything that moves her; there
they are for a batch of users who share their parameters, and take a hundred times as long for one.

Shapes: E events, which are clicks or slates without one (see `history`), J draws, D dimensions.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from slatewise.compiled.compilation import fast
from slatewise.data.interactions import Interactions
from slatewise.model.posterior import Posterior
from slatewise.model.predicting import present_profiles

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_MOVING = ("initial_state", "drift_logit", "from_item", "from_state", "output", "evidence")


class UserDynamics:
    """What the posterior knows of how clicks, and slates without one, move users."""

    def __init__(self, posterior: Posterior) -> None:
        self._posterior = posterior
        self._parts = {
            name: (part.mean.detach().cpu().numpy(), part.scale.detach().cpu().numpy())
            for name, part in posterior.shared.items()
            if name in _MOVING
        }
        self.places: Ints = posterior.evidence_places.cpu().numpy()
        """[number of sources] place of each in `Evidence.fractions`, −1 for none"""

    def mean(self, vectors: Floats, kinds: Ints) -> Floats:
        """Return the profile by the mean, after events with vectors [E, D] and kinds [E]: [D]."""
        if self._posterior.config.initial_state == "amortised":
            return np.asarray(self._by_torch(vectors[None], kinds, None)[0])
        means = {name: mean[None] for name, (mean, _) in self._parts.items()}
        return np.asarray(_follow(vectors[None], kinds, means)[0])

    def draws(self, vectors: Floats, kinds: Ints, rng: np.random.Generator) -> Floats:
        """Return the profile in J draws, after events with vectors [J, E, D]: [J, D]."""
        if self._posterior.config.initial_state == "amortised":
            return self._by_torch(vectors, kinds, int(rng.integers(1 << 62)))
        drawn = {
            name: _normals(rng, len(vectors), mean, scale)
            for name, (mean, scale) in self._parts.items()
        }
        return _follow(vectors, kinds, drawn)

    def drawn_once(self, draws: int, seed: int) -> Callable[[Floats, Ints], Floats]:
        """Draw all that moves users J times, once; return what follows events [J, E, D] with them.

        For numbers that are to differ between users by what they did, and not by chance.
        """
        if self._posterior.config.initial_state == "amortised":
            return lambda vectors, kinds: self._by_torch(vectors, kinds, seed)
        rng = np.random.default_rng(seed)
        drawn = {
            name: _normals(rng, draws, mean, scale) for name, (mean, scale) in self._parts.items()
        }
        return lambda vectors, kinds: _follow(vectors, kinds, drawn)

    def _by_torch(self, vectors: Floats, kinds: Ints, seed: int | None) -> Floats:
        """Do the same through the model's own functions; slow, for a state that is averaged."""
        posterior, batch = self._posterior, self._interactions(kinds)
        items = torch.from_numpy(vectors)
        with torch.no_grad():
            if seed is None:
                mean = {name: part.mean for name, part in posterior.shared.items()}
                parameters = posterior.parameters(items[0], mean)
                return present_profiles(parameters, posterior.config, batch).numpy()
            seeded = torch.Generator().manual_seed(seed)
            parameters = posterior.samples_around(items, seeded)
            return present_profiles(parameters, posterior.config, batch, seeded)[:, 0].numpy()

    def _interactions(self, kinds: Ints) -> Interactions:
        """Take events [E] for interactions, with as many items: event e is a slate of item e."""
        events = len(kinds)
        clicks = Interactions.of_clicks(torch.arange(events), torch.tensor([0, events]))
        found = (self.places == kinds[:, None]) & (kinds >= 0)[:, None]  # [E, sources]
        return replace(
            clicks,
            clicks=torch.from_numpy(np.where(kinds < 0, 0, -1).astype(np.int32)),
            sources=torch.from_numpy((found * np.arange(len(self.places))).sum(1).astype(np.uint8)),
        )


def _normals(rng: np.random.Generator, draws: int, mean: Floats, scale: Floats) -> Floats:
    """Draw [J, …] around a mean."""
    values = rng.standard_normal((draws, *mean.shape), dtype=np.float32)
    values *= scale
    values += mean
    return values


def _follow(vectors: Floats, kinds: Ints, parts: dict[str, Floats]) -> Floats:
    """Go through events with vectors [J, E, D], with parameters of each draw: [J, D]."""
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    state = np.array(parts["initial_state"], dtype=np.float32)  # [J, d_h]
    fractions = np.tanh(parts.get("evidence", np.empty((len(vectors), 0), np.float32)))
    if "drift_logit" in parts:
        drift = 1 / (1 + np.exp(-parts["drift_logit"][:, None]))  # [J, 1]
        for step, kind in enumerate(kinds.tolist()):
            gap = vectors[:, step] - state
            state += (1 - drift if kind < 0 else _slate_share(fractions[:, kind, None], gap)) * gap
        return state
    profiles = np.empty((len(vectors), vectors.shape[2]), np.float32)
    matrices = parts["from_item"], parts["from_state"], parts["output"]
    _gru(vectors, kinds, *matrices, fractions, state, profiles)
    return profiles


def _slate_share(fraction: Floats, gap: Floats) -> Floats:
    """Return the share of the gap [J, d_h] that a slate without a click closes: [J, 1].

    The same as `evidence.slate_share`.
    """
    relevance = np.exp(-np.linalg.norm(gap, axis=1, keepdims=True))
    return np.where(fraction > 0, fraction, fraction * relevance)


@fast
def _slate_step(inputs: Floats, fraction: float, state: Floats) -> None:
    """Move the state [d_h] by a slate without a click: W_i v is [3 d_h]."""
    hidden = len(state)
    gap = np.empty(hidden, np.float32)
    square = np.float32(0)
    for h in range(hidden):
        gap[h] = np.tanh(inputs[2 * hidden + h]) - state[h]
        square += gap[h] * gap[h]
    share = fraction if fraction > 0 else fraction * np.exp(-np.sqrt(square))
    for h in range(hidden):
        state[h] += share * gap[h]


@fast
def _gru(
    vectors: Floats,
    kinds: Ints,
    from_item: Floats,
    from_state: Floats,
    output: Floats,
    fractions: Floats,
    state: Floats,
    profiles: Floats,
) -> None:
    """Advance state [J, d_h] through vectors [J, E, D], and leave the profiles [J, D]."""
    draws, events, dims = vectors.shape
    hidden = state.shape[1]
    inputs = np.empty(3 * hidden, np.float32)
    own = np.empty(3 * hidden, np.float32)
    for j in range(draws):
        for step in range(events):
            for row in range(3 * hidden):
                total = np.float32(0)
                for d in range(dims):
                    total += from_item[j, row, d] * vectors[j, step, d]
                inputs[row] = total
                total = np.float32(0)
                for d in range(hidden):
                    total += from_state[j, row, d] * state[j, d]
                own[row] = total
            if kinds[step] >= 0:
                _slate_step(inputs, fractions[j, kinds[step]], state[j])
                continue
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
