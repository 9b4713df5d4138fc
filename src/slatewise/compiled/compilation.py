"""How kernels are compiled, and when a result on disk is still valid.

The decorators differ in what LLVM may do to floating-point arithmetic, from nothing to anything:
`exact`, `compiled`, `reordered`, `fast`. None changes results from one run to the next.

numba counts references to an array whenever a function takes it out of a tuple or slices it: two
atomic operations, which took two fifths of the time of posterior draws. Functions that make and
return no array can do without, since whoever calls them holds what they are given: `uncounted`,
`inlined`.
"""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from slatewise.compiled.cache import SharedCacheFile

Kernel = Callable[..., Any]

CONTRACT = ("contract",)
"""A product and a sum may become one operation, rounded once."""
# Without nnan and ninf: -inf is a legitimate utility, and a NaN must stay one.
REORDER = ("reassoc", "contract", "nsz", "arcp")
"""Sums may also be added up in another order, as vectors need it."""

# numba's own signature describes the Python function, not what the decorator makes of it.
_njit: Any = numba.njit
_OPTIONS = {"error_model": "numpy", "nogil": True}


def _compiler(*flags: str, counted: bool = True) -> Callable[[Kernel], Kernel]:
    """Return a decorator that compiles with these flags of LLVM and keeps the result on disk.

    numba compares only the file of the outermost function to tell whether a result is still
    valid, although the code of other files is compiled into it. The stamp is of all files that a
    kernel may draw upon: those of its own folder and of this one. Where there is no directory to
    write to, or numba keeps files of another kind, the result is not kept.
    """
    options = {"fastmath": set(flags), "_nrt": counted, **_OPTIONS}

    def compile_(function: Kernel) -> Kernel:
        try:
            kernel = _njit(cache=True, **options)(function)
            kernel._cache._cache_file = SharedCacheFile(
                kernel._cache._cache_file, stamp_of(function)
            )
        except (RuntimeError, AttributeError):
            kernel = _njit(**options)(function)
        result: Kernel = kernel
        return result

    return compile_


exact = _compiler()
"""Compile arithmetic as it is written: the same bits wherever the same thing is computed."""
compiled = _compiler(*CONTRACT)
"""Compile with fused products and sums, of which bounds and margins are still proven."""
uncounted = _compiler(*CONTRACT, counted=False)
"""The same without counting references; for functions that make and return no array."""
reordered = _compiler(*REORDER)
"""Compile with sums in any order; infinities and NaN stay what they are."""
fast = _compiler("fast")
"""Compile with anything allowed, for numbers that are finite."""


def inlined(function: Kernel) -> Kernel:
    """Compile a piece of vector code into whatever calls it, as `uncounted` does.

    As a call it would pass its vectors through memory, which costs draws a tenth.
    """
    options = {"fastmath": set(CONTRACT), "_nrt": False, **_OPTIONS}
    result: Kernel = _njit(forceinline=True, **options)(function)
    return result


def part(function: Kernel) -> Kernel:
    """Compile a part of `reordered` kernels into whatever calls it.

    As a call it would be one copy of the code in the process that compiled the kernel, and another
    in those that read it from disk: optimised twice, with sums in another order. Results would
    differ in the last bit between the first run after an installation and the next.
    """
    result: Kernel = _njit(forceinline=True, fastmath=set(REORDER), **_OPTIONS)(function)
    return result


def stamp_of(function: Kernel) -> str:
    """Return a digest of all code that may be compiled into a function."""
    return digest(Path(function.__code__.co_filename).parent) + _TOOLKIT


@functools.cache
def digest(folder: Path) -> str:
    """Return a digest of all modules in a folder."""
    result = hashlib.blake2b(digest_size=16)
    for file in sorted(folder.glob("*.py")):
        result.update(file.read_bytes())
    return result.hexdigest()


_TOOLKIT = digest(Path(__file__).parent)
