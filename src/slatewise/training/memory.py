"""Memory that one step of training leaves to the next."""

import ctypes
import functools

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""What glibc's `mallopt` calls the two settings."""
_KEPT, _LARGEST = 256 << 20, 32 << 20
"""Bytes that may lie free, and from which a block is asked of the system by itself; for the latter
glibc takes no more."""


@functools.cache
def keep_freed_memory() -> bool:
    """Ask the C library, once a process, not to return what a step frees; False if it cannot.

    A step frees tens of megabytes, and the next one needs them. Left alone, glibc gives them back
    and asks for them again now and then for thousands of steps in a row, whichever way the heap
    has come to lie: 1,700 page faults a step, a fifth of its time.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(mallopt(_TRIM_THRESHOLD, _KEPT) and mallopt(_MMAP_THRESHOLD, _LARGEST))
