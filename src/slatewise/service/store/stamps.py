"""Shared memory in which workers signal that something changed, not what.

A stamp is a number; whoever finds another one than before reads the store again. Stamps are random,
since a counter that two processes raise at once can come back to an old value.
"""

import mmap
import os
import secrets
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from slatewise.errors import InputError

SLOTS: Final = 1 << 16
"""The number of stamps that users share, by a hash of their ids."""
_MAGIC: Final = 0x31455441_4C535753  # "SWSLATE1"
_HEAD: Final = 8
_SIZE: Final = 8 * (_HEAD + SLOTS)


class Stamps:
    """The stamps of a service: one of its items, and one of each slot of users."""

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self._words = words

    @classmethod
    def open(cls, path: Path) -> "Stamps":
        """Map the file, making it first where there is none; processes may do so at once."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
        with path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size != _SIZE:
                raise _damaged(path)
            words = np.frombuffer(mmap.mmap(file.fileno(), _SIZE), np.uint64)
        if words[0] != _MAGIC:
            raise _damaged(path)
        return cls(words)

    def items(self) -> int:
        """Return the stamp of the items."""
        return int(self._words[1])

    def change_items(self) -> None:
        """Give the items a fresh stamp: after a change of them is in the store."""
        self._words[1] = secrets.randbits(64)

    def user(self, user_id: str) -> int:
        """Return the stamp of a user, to be read *before* what the store knows of her."""
        return int(self._words[_slot(user_id)])

    def change_users(self, user_ids: Iterable[str]) -> None:
        """Give users fresh stamps: after what changed is in the store."""
        for user_id in user_ids:
            self._words[_slot(user_id)] = secrets.randbits(64)


def _slot(user_id: str) -> int:
    return _HEAD + zlib.crc32(user_id.encode("utf-8", "surrogatepass")) % SLOTS


def _make(path: Path) -> None:
    """Write the file aside, then give it its name unless another process was faster."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    words = np.frombuffer(secrets.token_bytes(_SIZE), np.uint64).copy()
    words[0] = _MAGIC
    partial.write_bytes(words.tobytes())
    try:
        os.link(partial, path)
    except FileExistsError:
        pass
    finally:
        partial.unlink()


def _damaged(path: Path) -> InputError:
    return InputError(
        "is not what workers share.",
        "Stop the service, delete the file and start again: nothing is lost.",
        file=path,
    )
