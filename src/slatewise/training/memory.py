"""Whether the C library keeps freed memory for the next step, or returns it to the system.

With another library than glibc, nothing happens.
"""

import ctypes
import functools
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of the two settings in glibc's `mallopt`."""
_KEPT, _LARGEST = 256 << 20, 32 << 20
"""Bytes that may stay free, and from which a block is mapped by itself (the most glibc allows)."""


@functools.cache
def keep_freed_memory() -> bool:
    """Ask the C library, once a process, not to return what a step frees; False if it cannot.

    A step frees tens of megabytes, and the next one needs them. Left alone, glibc gives them back
    and asks for them again, for thousands of steps in a row, depending on the layout of the heap:
    1,700 page faults per step, a fifth of its time.
    """
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, _KEPT) and mallopt(_MMAP_THRESHOLD, _LARGEST))


def give_back_freed_memory() -> bool:
    """Return freed memory to the system; False if there was none, or it cannot.

    For a process that will not need it again: after loading 1.3 million items, 116 MB.
    """
    trim = _of_glibc("malloc_trim")
    return trim is not None and bool(trim(0))


def _of_glibc(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
