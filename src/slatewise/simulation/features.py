"""What the items table says about items: numeric features, and groups that may be wrong."""

import numpy as np

from slatewise.simulation.arrays import Floats, Ints
from slatewise.simulation.catalogue import Catalogue
from slatewise.simulation.config import FeaturesConfig
from slatewise.simulation.space import Space


def item_features(
    config: FeaturesConfig,
    catalogue: Catalogue,
    space: Space,
    quality: Floats | None,
    rng: np.random.Generator,
) -> Floats:
    """Return F numbers of variance about 1 for every item: [I, F].

    Those of the vector are its way from the group mean, seen along random directions; those of
    quality are readings of it. To all, noise is added.
    """
    d = space.vectors.shape[1]
    way = space.vectors - space.means[catalogue.group]  # [I, D]
    way *= np.sqrt(d) / space.spread[catalogue.group, None]
    directions = rng.standard_normal((d, config.of_vector))
    directions /= np.linalg.norm(directions, axis=0)
    known = np.zeros(catalogue.items) if quality is None else quality
    scale = known.std() or 1.0
    readings = np.repeat((known / scale)[:, None], config.of_quality, axis=1)
    signal = np.hstack([way @ directions, readings])  # [I, F]
    noise = rng.standard_normal(signal.shape)
    mixed = np.sqrt(config.informative) * signal + np.sqrt(1 - config.informative) * noise
    return np.asarray(mixed, dtype=np.float32)


def listed_groups(catalogue: Catalogue, mislabelled: float, rng: np.random.Generator) -> Ints:
    """Return the groups of the items table: the true ones, but for a share drawn at random: [I]."""
    wrong = rng.random(catalogue.items) < mislabelled
    return np.where(wrong, rng.integers(catalogue.groups, size=catalogue.items), catalogue.group)
