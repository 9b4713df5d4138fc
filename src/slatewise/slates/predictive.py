"""The predictive distribution of unseen items, given their groups and features.

Shapes: R new items, Q features, D dimensions, C numbers of an item (its vector, and its bias where
the model has biases).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from slatewise.features.item_values import encode_values
from slatewise.model.fitted import SlateModel

Floats = npt.NDArray[np.float32]


class FeaturePrediction(NamedTuple):
    """What features predict of R items beside their groups: E W x and Var W x."""

    means: Floats
    """[R, C]"""
    variances: Floats
    """[R, C]"""

    def of(self, rows: npt.NDArray[np.integer]) -> "FeaturePrediction":
        """Return what they say of some of the items."""
        return FeaturePrediction(self.means[rows], self.variances[rows])


class Predictive:
    """The predictive distribution of new items, given their group.

    A group that training did not know is taken for one like those it knew: around the mean of
    their means, as wide as they are apart and are themselves. Features move the mean by E W x and
    add Var W x; missing features are encoded as unknown values.
    """

    def __init__(self, model: SlateModel) -> None:
        self._dimensions = model.config.dimensions
        self.encoder = model.item_encoder
        groups = torch.arange(len(model.group_names))
        with torch.no_grad():
            means, scales = model.posterior.prior.predictive(groups)
            between = means.var(0, correction=0) + scales.square().mean(0)
            self._means = torch.cat([means, means.mean(0, keepdim=True)]).float().numpy()
            self._scales = torch.cat([scales, between.sqrt()[None]]).float().numpy()
            if self.encoder is not None:
                weights = model.posterior.shared["feature_weights"]  # [Q, C]
                self._weights = weights.mean.float().numpy()
                self._variances = weights.scale.square().float().numpy()
                self.unknown = self.from_features(encode_values(self.encoder, [{}])[0])
                """of an item without features: R = 1"""

    def from_features(self, features: Floats) -> FeaturePrediction:
        """Return what features [R, Q] predict, for a model that has features."""
        return FeaturePrediction(
            _product(features, self._weights), _product(np.square(features), self._variances)
        )

    def __call__(
        self, groups: npt.NDArray[np.integer], predicted: FeaturePrediction | None = None
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return means and scales [R, D], biases and scales of biases [R] of groups [R]."""
        rows = np.minimum(groups, len(self._means) - 1)  # the last: a new group
        means, scales = self._means[rows], self._scales[rows]
        if self.encoder is not None:
            predicted = self.unknown if predicted is None else predicted
            means, scales = (
                means + predicted.means,
                np.sqrt(np.square(scales) + predicted.variances),
            )
        vectors, biases = self._split(means)
        spreads, bias_scales = self._split(scales)
        return vectors, spreads, biases, bias_scales

    def _split(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return vectors [R, D] and biases [R], which are 0 where the model has none."""
        size = self._dimensions
        biases = rows[:, size] if rows.shape[1] > size else np.zeros(len(rows), np.float32)
        return rows[:, :size], biases


def _product(features: Floats, weights: Floats) -> Floats:
    """Return features [R, Q] times weights [Q, C], to the last bit whatever rows there are.

    A BLAS adds up in an order that depends on R, and a slate made again adds items in other batches
    than those in which they came.
    """
    total = np.zeros((len(features), weights.shape[1]), np.float32)
    for number in np.flatnonzero(features.any(axis=0)):
        total += features[:, number, None] * weights[number]
    return total
