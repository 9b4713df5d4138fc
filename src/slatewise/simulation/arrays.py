"""The array types of the simulator; shapes are written where arrays are made."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
"""Items, groups, users and counts; −1 means none."""

Floats: TypeAlias = NDArray[np.float32]
"""Points in the latent space, and utilities."""

Doubles: TypeAlias = NDArray[np.float64]
"""Probabilities."""

Bools: TypeAlias = NDArray[np.bool_]
