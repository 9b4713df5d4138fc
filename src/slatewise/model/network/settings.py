"""Settings of the network, and what a fit depends on."""

import hashlib

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.model.network.item_columns import ItemMatrix


class NetworkSettings(Config):
    """Settings of the network."""

    network_units: PositiveInt = 64
    """H, units of each hidden layer of the network."""
    network_members: NonNegativeInt = 0
    """M, networks with other starts whose outputs are averaged; 0 for M by the size of the log."""
    network_seed: int = 0
    """Seed of the starting weights."""
    network_candidates: NonNegativeInt = 200
    """How many of the best items it ranks again for a slate, at most; held-out clicks settle it."""


def fingerprint(dataset: SlateDataset, settings: NetworkSettings, matrix: ItemMatrix) -> str:
    """Return what a fit depends on: the data, the split, columns of items and the settings."""
    digest = hashlib.blake2b(dataset.content_hash.encode(), digest_size=16)
    for ends in (dataset.train_end, dataset.valid_end):
        digest.update(np.ascontiguousarray(ends).tobytes())
    digest.update(matrix.digest.encode())
    digest.update(settings.model_dump_json().encode())
    return digest.hexdigest()
