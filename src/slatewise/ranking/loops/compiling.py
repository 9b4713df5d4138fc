"""How the loops are compiled, and when what was compiled before still holds."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

Kernel = Callable[..., Any]

# numba's own signature describes the Python function, not what the decorator makes of it.
_njit: Any = numba.njit
_OPTIONS = {"error_model": "numpy", "nogil": True, "fastmath": {"contract"}}


def digest(folder: Path) -> str:
    """Return a digest of all code in a folder."""
    result = hashlib.blake2b(digest_size=16)
    for file in sorted(folder.glob("*.py")):
        result.update(file.read_bytes())
    return result.hexdigest()


_STAMP = digest(Path(__file__).parent)


def compiled(function: Kernel) -> Kernel:
    """Compile a loop without the interpreter's lock, and keep the result on disk.

    numba looks only at the file of a function to tell whether its result on disk is fresh, and
    these loops call one another across files: the stamp is of all of them. Where that cannot be
    set, or there is no place to write, the result is not kept.
    """
    try:
        kernel = _njit(cache=True, **_OPTIONS)(function)
        _restamp(kernel._cache._cache_file)
    except (RuntimeError, AttributeError):
        kernel = _njit(**_OPTIONS)(function)
    result: Kernel = kernel
    return result


def inlined(function: Kernel) -> Kernel:
    """Compile a piece of vector code into whatever calls it.

    As a call it would take its vectors through memory, which costs draws a tenth.
    """
    result: Kernel = _njit(forceinline=True, **_OPTIONS)(function)
    return result


def _restamp(file: Any) -> None:
    if not hasattr(file, "_source_stamp"):
        raise AttributeError("numba keeps its stamp elsewhere")
    file._source_stamp = _STAMP
