"""NumPy archives too large to load: several arrays, read a block of rows at a time."""

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from slatewise.errors import InputError

BROKEN_ARCHIVE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    struct.error,
    NotImplementedError,
)
"""What zipfile and numpy raise for archives that are truncated, damaged or something else."""


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize


class NpzRows:
    """Arrays of one archive that agree on their number of rows.

    `np.load` would decompress each array whole (9 GB for FINN's slates); a zip member can be read
    from its start instead, and several members of one archive can be read side by side.
    """

    def __init__(self, file: Path, names: Sequence[str]) -> None:
        """Read the headers of the arrays `names`, and nothing more."""
        self.file = file
        self._headers: dict[str, _Header] = {}
        try:
            with zipfile.ZipFile(file) as archive:
                for name in names:
                    self._headers[name] = self._inspect(archive, name)
        except BROKEN_ARCHIVE as error:
            raise not_an_archive(file, error) from error
        rows = {name: header.shape[0] for name, header in self._headers.items()}
        for name in names:
            if rows[name] != rows[names[0]]:
                raise self._damaged(
                    f"{rows[name]:,} rows, but '{names[0]}' has {rows[names[0]]:,}.", name
                )

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one array."""
        return self._headers[name].shape

    def blocks(self, rows: int) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
        """Yield the number of rows before a block, and the next `rows` rows of every array."""
        total = next(iter(self._headers.values())).shape[0]
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(self.file))
            members = {
                name: stack.enter_context(archive.open(f"{name}.npy")) for name in self._headers
            }
            for name, member in members.items():
                self._read_header(member, name)
            for start in range(0, total, rows):
                count = min(rows, total - start)
                yield (
                    start,
                    {
                        name: self._read_rows(member, name, start, count)
                        for name, member in members.items()
                    },
                )

    def _inspect(self, archive: zipfile.ZipFile, name: str) -> _Header:
        try:
            info = archive.getinfo(f"{name}.npy")
        except KeyError:
            held = ", ".join(sorted(archive.namelist()))
            raise self._damaged(f"the array is missing; the archive holds {held}.", name) from None
        with archive.open(info) as member:
            header = self._read_header(member, name)
            expected = member.tell() + header.shape[0] * header.row_bytes
        if info.file_size != expected:
            raise self._damaged(
                f"{info.file_size:,} bytes, but its shape {header.shape} takes {expected:,}.", name
            )
        return header

    def _read_header(self, member: IO[bytes], name: str) -> _Header:
        version = np.lib.format.read_magic(member)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise self._damaged(f"the array is in the unknown .npy version {version}.", name)
        shape, fortran_order, dtype = read(member)
        if not shape or dtype.kind not in "iu":
            raise self._damaged(f"expected an array of integers, found {dtype} {shape}.", name)
        if fortran_order and len(shape) > 1:
            raise self._damaged("the array is stored column by column, not row by row.", name)
        return _Header(shape, dtype)

    def _read_rows(self, member: IO[bytes], name: str, start: int, count: int) -> NDArray[Any]:
        header = self._headers[name]
        try:
            data = member.read(count * header.row_bytes)
        except BROKEN_ARCHIVE as error:
            raise self._damaged(f"the data cannot be unpacked: {error}.", name, start) from error
        if len(data) < count * header.row_bytes:
            raise self._damaged("the data ends early.", name, start)
        return np.frombuffer(data, header.dtype).reshape(count, *header.shape[1:])

    def _damaged(self, problem: str, name: str, start: int | None = None) -> InputError:
        row = None if start is None else start + 1
        return InputError(problem, "Fetch the file again.", file=self.file, row=row, column=name)


def not_an_archive(file: Path, error: Exception) -> InputError:
    """Return the error for a file that should be a complete .npz archive and is not."""
    return InputError(
        f"this is not a complete .npz archive ({error}).",
        "Fetch the file again; it may be a broken-off download, or a Git LFS pointer.",
        file=file,
    )
