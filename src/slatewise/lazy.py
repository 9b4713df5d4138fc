"""Names of a package that are loaded on first use."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(
    package: str, names: Mapping[str, str], modules: str = ""
) -> tuple[list[str], Callable[[], list[str]], Callable[[str], Any]]:
    """Return `__all__`, `__dir__` and `__getattr__` of a package, from its names by module.

    Torch and polars take time to load, and a part of the package that needs neither should work
    where one of them is missing.

    Args:
        package: its full name.
        names: modules, relative to the package, with the names that live there, parted by spaces.
        modules: names of modules of the package that are themselves offered, parted by spaces.
    """
    homes = {name: module for module, found in names.items() for name in found.split()}

    def get(name: str) -> Any:
        if name in modules.split():
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    def listed() -> list[str]:
        own = vars(sys.modules[package])
        used_here = {"TYPE_CHECKING", "exports", "lazy"}
        return sorted({*own, *homes, *modules.split()} - used_here)

    return sorted([*homes, *modules.split()]), listed, get
