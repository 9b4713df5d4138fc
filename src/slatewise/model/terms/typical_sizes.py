"""The typical size of features, by which terms divide them, and the users that it is judged by."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions

MOST_USERS: Final = 20_000
"""Users by whom the size of features is judged, at most."""


def typical_sizes(features: Tensor) -> tuple[float, ...]:
    """Return the root mean square of what is not 0 in each column of [K, P]; 1 for none."""
    known = (features != 0).sum(0).clamp(min=1)
    sizes = (features.double().square().sum(0) / known).sqrt()
    return tuple(torch.where(sizes > 0, sizes, 1.0).tolist())


def training_sample(dataset: SlateDataset) -> Interactions:
    """Return the training interactions of some users, always the same."""
    users = np.flatnonzero(dataset.train_end > 0)
    drawn = torch.from_numpy(np.random.default_rng(0).permutation(users)[:MOST_USERS])
    return dataset.interactions().of_users(drawn, torch.from_numpy(dataset.train_end)[drawn])
