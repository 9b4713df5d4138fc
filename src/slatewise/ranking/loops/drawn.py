"""Relevance of a few items over posterior draws that are kept."""

import math
from typing import Any

import numpy as np

from slatewise.compiled.compilation import compiled
from slatewise.ranking.loops.pieces import score


@compiled
def drawn_relevance(
    relevance: Any,
    columns: Any,
    items: Any,
    noise: Any,
    bias_noise: Any,
    profiles: Any,
    added: Any,
    sharpness: Any,
    means: Any,
    scales: Any,
) -> None:
    """Write the mean and the scale of exp(utility) of items [k] over J draws: [k] each.

    Items have the noise [N, J, D] and [N, J] at their number modulo N, users the profiles [J, D];
    `added` [J, k] or [J, 0] is what terms add. The sum of all is multiplied by the sharpness.
    """
    count, size = profiles.shape
    vector, values = np.empty(size, np.float32), np.empty(count)
    for index in range(len(items)):
        item = items[index]
        slot, bias_sd = item % len(noise), 0.0
        if len(columns.spreads) > 2:
            bias_sd = np.float64(columns.spreads[2, item])
        total = 0.0
        for j in range(count):
            for d in range(size):
                vector[d] = columns.rows[item, 0, d] + columns.rows[item, 1, d] * noise[slot, j, d]
            utility = score(relevance, profiles[j], vector)
            utility += np.float64(columns.biases[item]) + bias_sd * bias_noise[slot, j]
            if added.shape[1]:
                utility += added[j, index]
            values[j] = math.exp(sharpness * utility)
            total += values[j]
        mean, squares = total / count, 0.0
        for j in range(count):
            squares += (values[j] - mean) ** 2
        means[index], scales[index] = mean, math.sqrt(squares / count)
