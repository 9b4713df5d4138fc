"""Stable 64-bit keys of ids and rows.

Sampling, partitioning and splitting go by these keys and not by row number or by a library's
hash, so the same data gives the same result in any order, on any machine, in any version.
"""

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slatewise.data.ragged import Int64Array, row_sums

Keys = npt.NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
_BASE = 0x5851F42D4C957F2D


def mix(keys: Keys, salt: int = 0) -> Keys:
    """Scramble keys so that every output bit depends on every input bit (splitmix64)."""
    x = keys + np.uint64(_GOLDEN * (salt + 1) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def id_keys(ids: pl.Series) -> Keys:
    """Return one key per id; ids are Int64 or String and not null."""
    if ids.dtype == pl.Int64:
        return mix(ids.to_numpy().view(np.uint64))
    text = ids.to_arrow().cast(pa.large_binary())
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int64)[text.offset :][: len(ids) + 1]
    data = np.frombuffer(text.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    return sequence_keys(data.astype(np.uint64), offsets - offsets[0])


def sequence_keys(values: Keys, offsets: Int64Array) -> Keys:
    """Return one key per ragged row that depends on its values and their order.

    A polynomial in the position, modulo 2**64, scrambled at the end.
    """
    lengths = np.diff(offsets)
    position = np.arange(len(values), dtype=np.int64) - np.repeat(offsets[:-1], lengths)
    powers = np.full(int(lengths.max(initial=0)), _BASE, dtype=np.uint64)
    powers = np.multiply.accumulate(powers, dtype=np.uint64)
    totals = row_sums((values + np.uint64(1)) * powers[position], offsets)
    return mix(totals ^ lengths.astype(np.uint64))


def combine(*parts: Keys) -> Keys:
    """Return one key per row from several, in which the order of the parts matters."""
    result = mix(parts[0])
    for part in parts[1:]:
        result = mix(result ^ part)
    return result


def uniform(keys: Keys, seed: int) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) per key, independent between seeds."""
    return (mix(mix(keys, salt=seed)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
