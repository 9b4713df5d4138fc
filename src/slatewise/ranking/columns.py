"""The arrays of an item table, in memory or mapped from a directory.

C is the capacity: the rows for items, a multiple of 16, of which the last ones are spare.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.errors import InputError
from slatewise.files import atomic_directory

Floats32 = npt.NDArray[np.float32]

LANES = 16
"""Items that lie side by side: one vector register of floats, one cache line."""
VERSION = 2
HEADER = "table.json"
_ROWS_AT_ONCE = 1 << 16
_REMEDY = "Create the table again."


class TableColumns(NamedTuple):
    """What is known of the items, laid out for one pass over all means."""

    means: Floats32  # [C / 16, D, 16]
    rows: Floats32  # [C, 2, D]: mean and scale again, together, for the few items that are drawn
    spreads: Floats32  # [2, C]: Σσ² and max σ²; [3, C] with the scales of biases, if any has one
    biases: Floats32  # [C]
    offers: Floats32  # [C]: the bias of an item that is available, -inf in any other row
    groups: npt.NDArray[np.int32]  # [C]
    features: Floats32  # [C / 16, P, 16]: what weights of a request act on; in memory only

    @property
    def capacity(self) -> int:
        """Count the rows for items."""
        return len(self.biases)


_MADE = ("offers", "features")
FILES = {name: f"{name}.bin" for name in TableColumns._fields if name not in _MADE}
CONTENTS = (HEADER, *FILES.values())


def capacity_for(num_items: int) -> int:
    """Return a capacity with room to grow by an eighth."""
    return -(-(num_items + num_items // 8 + 64) // LANES) * LANES


def allocate(capacity: int, dimensions: int, spreads: int = 2) -> TableColumns:
    """Return columns in memory without items; the system gives the pages as they are used."""
    return _arrays(capacity, dimensions, spreads, lambda _, dtype, shape: np.zeros(shape, dtype))


def grown(columns: TableColumns, capacity: int, spreads: int) -> TableColumns:
    """Return a copy in memory with more rows, or with scales of biases too."""
    features = np.zeros((capacity // LANES, *columns.features.shape[1:]), np.float32)
    larger = allocate(capacity, columns.rows.shape[2], spreads)._replace(features=features)
    larger.means[: len(columns.means)] = columns.means
    larger.features[: len(columns.features)] = columns.features
    larger.spreads[: len(columns.spreads), : columns.capacity] = columns.spreads
    for name in ("rows", "biases", "offers", "groups"):
        getattr(larger, name)[: columns.capacity] = getattr(columns, name)
    larger.offers[columns.capacity :] = -np.inf
    return larger


def in_blocks(rows: npt.NDArray[Any], capacity: int) -> Floats32:
    """Lay out rows [n, P] as the means are: [C / 16, P, 16]."""
    blocks = np.zeros((capacity // LANES, rows.shape[1], LANES), np.float32)
    indices = np.arange(len(rows))
    blocks[indices // LANES, :, indices % LANES] = rows
    return blocks


def fill(
    columns: TableColumns,
    start: int,
    means: npt.NDArray[Any],
    scales: npt.NDArray[Any],
    biases: npt.NDArray[Any],
    groups: npt.NDArray[Any],
    bias_scales: npt.NDArray[Any],
) -> None:
    """Write items from row `start` on; the offers come last, for a pass may be under way."""
    for first in range(0, len(means), _ROWS_AT_ONCE):
        rows = slice(first, min(first + _ROWS_AT_ONCE, len(means)))
        indices = np.arange(start + rows.start, start + rows.stop)
        put(columns, indices, means[rows], scales[rows], biases[rows], bias_scales[rows])
        columns.groups[start + rows.start : start + rows.stop] = groups[rows]
    columns.offers[start : start + len(means)] = biases


def put(
    columns: TableColumns,
    indices: npt.NDArray[np.int64],
    means: npt.NDArray[Any],
    scales: npt.NDArray[Any],
    biases: npt.NDArray[Any],
    bias_scales: npt.NDArray[Any],
) -> None:
    """Write what is believed of the items at indices [n]; groups and offers stay as they are."""
    columns.means[indices // LANES, :, indices % LANES] = means
    columns.rows[indices, 0] = means
    columns.rows[indices, 1] = scales
    squares = np.square(columns.rows[indices, 1], dtype=np.float64)
    columns.spreads[0, indices] = squares.sum(1)
    columns.spreads[1, indices] = squares.max(1)
    columns.biases[indices] = biases
    if len(columns.spreads) > 2:
        columns.spreads[2, indices] = bias_scales


def write(
    path: Path,
    num_items: int,
    dimensions: int,
    spreads: int,
    fill_in: Callable[[TableColumns], None],
) -> None:
    """Make a directory of columns that `fill_in` fills; it appears whole or not at all."""
    capacity = capacity_for(num_items)
    with atomic_directory(path, contents=CONTENTS) as directory:

        def create(name: str, dtype: type, shape: tuple[int, ...]) -> npt.NDArray[Any]:
            if name in _MADE:
                return np.zeros(shape, dtype)
            return np.memmap(directory / FILES[name], dtype, "w+", shape=shape)

        columns = _arrays(capacity, dimensions, spreads, create)
        columns.biases[:] = -np.inf
        fill_in(columns)
        for name in FILES:
            getattr(columns, name).flush()
        header = {"items": num_items, "dimensions": dimensions, "capacity": capacity}
        header |= {"spreads": spreads}
        text = json.dumps({"version": VERSION} | header, indent=2)
        (directory / HEADER).write_text(text + "\n", encoding="utf-8")


def read(path: Path) -> tuple[TableColumns, int]:
    """Map a directory of columns; return them with the number of items.

    The maps are private: what a process changes is a copy of its own, page by page. Offers are
    a second map of the biases.
    """
    num_items, dimensions, capacity, spreads = _header(path)

    def open_(name: str, dtype: type, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        if name == "features":
            return np.zeros(shape, dtype)
        file = path / FILES["biases" if name == "offers" else name]
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if not file.is_file() or file.stat().st_size != size:
            raise InputError("the file is missing or damaged.", _REMEDY, file=file)
        return np.memmap(file, dtype, "c", shape=shape).view(np.ndarray)

    return _arrays(capacity, dimensions, spreads, open_), num_items


def _header(path: Path) -> tuple[int, int, int, int]:
    file = path / HEADER
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
        version = header["version"]
        sizes = tuple(header[name] for name in ("items", "dimensions", "capacity", "spreads"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError("this is not an item table.", _REMEDY, file=file) from error
    if version != VERSION:
        raise InputError(f"version {version!r} of item tables is unknown.", _REMEDY, file=file)
    if not all(isinstance(size, int) for size in sizes):
        raise InputError("the sizes are damaged.", _REMEDY, file=file)
    items, dimensions, capacity, spreads = sizes
    fit = 0 <= items <= capacity and capacity > 0 and capacity % LANES == 0
    if not fit or dimensions < 1 or spreads not in (2, 3):
        raise InputError("the sizes are damaged.", _REMEDY, file=file)
    return items, dimensions, capacity, spreads


def _arrays(
    capacity: int,
    dimensions: int,
    spreads: int,
    make: Callable[[str, type, tuple[int, ...]], npt.NDArray[Any]],
) -> TableColumns:
    flat = (capacity,)
    return TableColumns(
        means=make("means", np.float32, (capacity // LANES, dimensions, LANES)),
        rows=make("rows", np.float32, (capacity, 2, dimensions)),
        spreads=make("spreads", np.float32, (spreads, capacity)),
        biases=make("biases", np.float32, flat),
        offers=make("offers", np.float32, flat),
        groups=make("groups", np.int32, flat),
        features=make("features", np.float32, (capacity // LANES, 0, LANES)),
    )
