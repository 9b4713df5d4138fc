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
    """H, units of each hidden layer of `network`."""
    network_members: NonNegativeInt = 0
    """M, networks averaged, from different starts; 0: four below 10,000 training slates, three
    below 60,000, else one."""
    network_seed: int = 0
    """Seed of their starting weights."""
    network_candidates: NonNegativeInt = 200
    """Most items that the network ranks again for a slate; validation clicks settle how many."""


def fingerprint(dataset: SlateDataset, settings: NetworkSettings, matrix: ItemMatrix) -> str:
    """Return what a fit depends on: the data, the split, columns of items and the settings."""
    digest = hashlib.blake2b(dataset.content_hash.encode(), digest_size=16)
    for ends in (dataset.train_end, dataset.valid_end):
        digest.update(np.ascontiguousarray(ends).tobytes())
    digest.update(matrix.digest.encode())
    digest.update(settings.model_dump_json().encode())
    return digest.hexdigest()
