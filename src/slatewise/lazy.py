"""Names of a package that are loaded when they are first asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package whose names (keys) live in modules (values).

    Torch and polars take their time to load, and a part of the package that needs neither should
    work where one of them is missing.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(homes[name]), name)

    return get
