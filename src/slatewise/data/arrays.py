"""Arrays on disk that grow as they are written and are memory-mapped when read."""

import hashlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from slatewise.data.ragged import pieces
from slatewise.errors import InputError


class ArrayWriter:
    """A one-dimensional `.npy` file written in pieces, with a running digest of its content."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._stream = path.open("wb")
        self._digest = hashlib.blake2b(digest_size=16)
        self._write_header()

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add values at the end; they must fit the array's type."""
        data = np.ascontiguousarray(values, dtype=self.dtype)
        self._stream.write(data.data)
        self._digest.update(data.data)
        self.length += len(data)

    def _write_header(self) -> None:
        # numpy pads the header so that the first axis can grow without moving the data.
        header = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False}
        npy.write_array_header_1_0(self._stream, header | {"shape": (self.length,)})

    def close(self) -> str:
        """Write the final length and return the digest of the content."""
        self._stream.seek(0)
        self._write_header()
        self._stream.close()
        return self._digest.hexdigest()

    def __enter__(self) -> Self:
        """Return the array itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file, whatever happened."""
        if not self._stream.closed:
            self.close()


def write_array(path: Path, values: npt.NDArray[Any]) -> str:
    """Write a whole array and return the digest of its content."""
    with ArrayWriter(path, values.dtype) as array:
        array.append(values)
        return array.close()


def map_array(path: Path, dtype: npt.DTypeLike, length: int) -> npt.NDArray[Any]:
    """Memory-map an array, refusing one that is not of this type and length.

    The map is private (copy on write), so that torch takes it without a copy or a warning.
    """
    try:
        # numpy maps nothing of zero length.
        values: npt.NDArray[Any] = np.load(path, mmap_mode="c" if length else None)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            "the array is missing or damaged.", "Prepare the dataset again.", file=path
        ) from error
    if values.dtype != np.dtype(dtype) or values.shape != (length,):
        raise InputError(
            f"the array holds {values.shape} {values.dtype}, not ({length},) {np.dtype(dtype)}.",
            "The dataset is damaged: prepare it again.",
            file=path,
        )
    return values


def digest_of(values: npt.NDArray[Any]) -> str:
    """Return the digest of an array's content, read piece by piece."""
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces(len(values)):
        digest.update(np.ascontiguousarray(values[piece]).data)
    return digest.hexdigest()
