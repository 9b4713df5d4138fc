"""Whether the compiled loops can be had; numba takes time to import, so only on first use."""

import functools
import importlib
from types import ModuleType


@functools.cache
def compiled() -> ModuleType | None:
    """Return the module of compiled loops, or None where numba is missing."""
    try:
        return importlib.import_module("slatewise.model.kernels._numba")
    except ImportError:
        return None
