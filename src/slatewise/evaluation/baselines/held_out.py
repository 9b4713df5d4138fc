"""Users of the training part whom baselines fit their few numbers on."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.evaluation.counts import Counts
from slatewise.evaluation.parts import part_bounds
from slatewise.evaluation.predictions import Slates

SHARE: Final = 0.2
MOST: Final = 5_000
"""Users held out, at most."""


@dataclass(frozen=True)
class HeldOut:
    """Training interactions to fit a choice on, and the counts of the other users."""

    batch: Interactions
    """of the users held out, from their first interaction on"""
    others: Counts
    everybody: Counts

    @classmethod
    def of(cls, dataset: SlateDataset, seed: int) -> "HeldOut":
        """Draw a fifth of the users, 5,000 at most."""
        users = np.random.default_rng(seed).permutation(np.flatnonzero(dataset.train_end > 0))
        if not len(users):
            raise SlatewiseError("the dataset has no training interactions.", "Split it again.")
        held = min(int(np.ceil(SHARE * len(users))), MOST)
        drawn = torch.from_numpy(users[:held])
        ends = part_bounds(dataset, "training")[1][drawn]
        everybody = Counts.of(dataset, np.sort(users))
        # A single user has to serve twice.
        others = everybody - Counts.of(dataset, users[:held]) if len(users) > 1 else everybody
        return cls(dataset.interactions().of_users(drawn, ends), others, everybody)

    @cached_property
    def slates(self) -> Slates:
        """What was seen in the interactions of the batch, and what became of it."""
        return Slates.of(self.batch, self.everything)

    @property
    def everything(self) -> Tensor:
        """[N] true for every interaction of the batch but further clicks on a slate."""
        return self.batch.first_choices
