"""A GRU for one user and J draws of its weights: what a request needs, in microseconds.

Shapes: J draws, E events, D dimensions, d_h hidden units.
"""

from typing import Any

import numpy as np

from slatewise.compiled.compilation import fast
from slatewise.compiled.functions import sigmoid, tanh


@fast
def _slate_step(inputs: Any, fraction: Any, state: Any) -> None:
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
def follow_gru(
    vectors: Any,
    kinds: Any,
    from_item: Any,
    from_state: Any,
    output: Any,
    fractions: Any,
    state: Any,
    profiles: Any,
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
                reset = sigmoid(inputs[h] + own[h])
                update = sigmoid(inputs[hidden + h] + own[hidden + h])
                new = tanh(inputs[2 * hidden + h] + reset * own[2 * hidden + h])
                state[j, h] = new + update * (state[j, h] - new)
        for d in range(dims):
            total = np.float32(0)
            for h in range(hidden):
                total += output[j, d, h] * state[j, h]
            profiles[j, d] = total
