"""Ragged batches of random choices, and their terms worked out one number at a time."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slatewise.model.kernels import SlateTerms, slate_terms
from slatewise.model.kernels.backend import RelevanceFunction
from slatewise.model.relevance.distance import DISTANCE

DIFFERENTIABLE = (
    "states",
    "items",
    "no_click",
    "feature_weights",
    "positions",
    "position_factors",
    "enough",
)


@dataclass(frozen=True)
class Cosine:
    """A relevance that the compiled loops do not know."""

    name: str = "cosine"
    fused: bool = False

    def pairs(self, states: Tensor, vectors: Tensor) -> Tensor:
        return torch.nn.functional.cosine_similarity(states, vectors, dim=-1)

    def many(self, states: Tensor, vectors: Tensor) -> Tensor:
        return self.pairs(states[:, None], vectors)


@dataclass(frozen=True)
class Batch:
    """The arguments of `slate_terms`."""

    states: Tensor
    items: Tensor
    no_click: Tensor
    features: Tensor | None
    feature_weights: Tensor | None
    positions: Tensor | None
    state_of: Tensor
    cells: Tensor
    offsets: Tensor
    clicks: Tensor
    weights: Tensor
    exposure_weights: Tensor | None
    sharpness: float
    include_no_click: bool
    include_bias: bool
    relevance: RelevanceFunction = DISTANCE
    position_factors: Tensor | None = None
    taken: Tensor | None = None
    stops: Tensor | None = None
    enough: Tensor | None = None

    def to(self, dtype: torch.dtype) -> "Batch":
        """Convert the floating-point tensors."""
        floats = {
            name: value.to(dtype)
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and value.is_floating_point()
        }
        return replace(self, **floats)

    def terms(self, backend: Any = "auto") -> SlateTerms:
        """Evaluate them."""
        arguments = dict(vars(self))
        inputs = [arguments.pop(name) for name in ("states", "items", "no_click")]
        return slate_terms(*inputs, **arguments, backend=backend)

    def gradients(self, backend: Any) -> tuple[SlateTerms, dict[str, Tensor]]:
        """Evaluate them and the gradient of 3 * total."""
        inputs = {
            name: getattr(self, name).clone().requires_grad_()
            for name in DIFFERENTIABLE
            if getattr(self, name) is not None
        }
        terms = replace(self, **inputs).terms(backend)
        (3 * terms.total).backward()
        return terms, {name: tensor.grad for name, tensor in inputs.items()}


def random_batch(
    seed: int,
    *,
    count: int = 12,
    dims: int = 5,
    longest: int = 7,
    rows: int = 9,
    with_bias: bool = True,
    num_features: int = 3,
    num_positions: int = 4,
    with_exposure: bool = True,
    sharpness: float = 2.0,
    include_no_click: bool = False,
    include_bias: bool = False,
    relevance: RelevanceFunction = DISTANCE,
    several: bool = False,
) -> Batch:
    """Draw a batch, in float32 values that float64 holds exactly."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, count)
    offsets = np.concatenate([[0], lengths.cumsum()])
    num_cells = offsets[-1]

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=shape)).float()

    def positive(length: int) -> Tensor:
        values = rng.exponential(size=length) * (rng.random(length) > 0.2)
        return torch.from_numpy(values).float()

    clicks = rng.integers(-1, lengths)
    taken = rng.random(num_cells) < 0.3
    taken[offsets[:-1][clicks >= 0] + clicks[clicks >= 0]] = False
    stops = (clicks >= 0) & (rng.random(count) < 0.6)
    batch = Batch(
        states=normal(count // 2 + 1, dims),
        items=normal(rows, dims + with_bias),
        no_click=normal(count),
        features=normal(num_cells, num_features) if num_features else None,
        feature_weights=normal(num_features) if num_features else None,
        positions=normal(num_positions) if num_positions else None,
        state_of=torch.from_numpy(rng.integers(0, count // 2 + 1, count)),
        cells=torch.from_numpy(rng.integers(0, rows, num_cells)).int(),
        offsets=torch.from_numpy(offsets),
        clicks=torch.from_numpy(clicks).int(),
        weights=positive(count),
        exposure_weights=positive(count) if with_exposure else None,
        sharpness=sharpness,
        include_no_click=include_no_click,
        include_bias=include_bias,
        relevance=relevance,
        position_factors=positive(count) if num_positions > 1 else None,
    )
    if not several:
        return batch
    flags = {"taken": torch.from_numpy(taken), "stops": torch.from_numpy(stops)}
    return replace(batch, **flags, enough=normal(count))


def by_hand(batch: Batch) -> tuple[float, list[float], list[float]]:
    """Transcribe the equations: the total, the log-likelihoods, the exposure terms."""
    total, log_likelihood, exposed = 0.0, [], []
    for n, click in enumerate(batch.clicks.tolist()):
        state = batch.states[batch.state_of[n]].tolist()
        utilities, exposing = [], []
        for position, cell in enumerate(range(int(batch.offsets[n]), int(batch.offsets[n + 1]))):
            vector = batch.items[batch.cells[cell]].tolist()
            bias = vector.pop() if len(vector) > len(state) else 0.0
            relevant = -math.dist(state, vector)
            if batch.relevance.name == "dot":
                relevant = sum(z * v for z, v in zip(state, vector, strict=True))
            utilities.append(bias + relevant)
            exposing.append(relevant + (bias if batch.include_bias else 0.0))
            if batch.features is not None:
                utilities[-1] += float(
                    batch.features[cell].double() @ batch.feature_weights.double()
                )
            if batch.positions is not None:
                factor = 1.0 if batch.position_factors is None else batch.position_factors[n]
                added = batch.positions[min(position, len(batch.positions) - 1)]
                utilities[-1] += float(factor * added)
            if batch.taken is not None and batch.taken[cell]:
                utilities[-1] = exposing[-1] = -math.inf
        nothing = float(batch.no_click[n])
        relevance = math.exp(nothing if click < 0 else utilities[click])
        everything = math.exp(nothing) + sum(math.exp(utility) for utility in utilities)
        log_likelihood.append(math.log(relevance / everything))
        if batch.stops is not None and batch.enough is not None and batch.stops[n]:
            left = [utility for position, utility in enumerate(utilities) if position != click]
            enough = math.exp(batch.enough[n])
            log_likelihood[-1] += math.log(enough / (enough + sum(map(math.exp, left))))
        counted = [*exposing, nothing] if batch.include_no_click else exposing
        sharpened = sum(math.exp(utility) ** batch.sharpness for utility in counted)
        exposed.append(0.0 if batch.exposure_weights is None else math.log(sharpened))
        share = 0.0 if batch.exposure_weights is None else float(batch.exposure_weights[n])
        total += float(batch.weights[n]) * (log_likelihood[-1] + share * exposed[-1])
    return total, log_likelihood, exposed
