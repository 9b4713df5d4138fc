"""Objects of other packages by their import path: `package.module:Name`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from slatewise.errors import SlatewiseError


def is_import_path(text: str) -> bool:
    """Return whether a text is meant as an import path, not as the name of a built-in part."""
    return ":" in text


def load_object(path: str, kind: str, needs: Sequence[str] = (), *, instance: bool = False) -> Any:
    """Import an object, such as a strategy, and refuse one that lacks anything of `needs`.

    `needs` are written as in the documentation: methods with their arguments, attributes without.
    With `instance`, a class is called to make the object. Modules in the current directory are
    found, as when Python is started there.
    """
    module, _, name = path.partition(":")
    if not module or not name:
        raise SlatewiseError(
            f"'{path}' is not an import path of a {kind}.", "Write it as package.module:Name."
        )
    found = getattr(_import(module, kind), name, None)
    if found is None:
        raise SlatewiseError(
            f"the module '{module}' has no {kind} `{name}`.", "Check the name after the colon."
        )
    if instance and isinstance(found, type):
        found = _make(found, kind)
    for need in needs:
        attribute, bracket, _ = need.partition("(")
        value = getattr(found, attribute, None)
        if value is None or (bracket and not callable(value)):
            what = "method" if bracket else "attribute"
            raise SlatewiseError(
                f"{name} has no {what} `{attribute}`: a {kind} needs {' and '.join(needs)}.",
                f"Add it to {name} in {module}.",
            )
    return found


def _import(module: str, kind: str) -> Any:
    # For good: processes that a study starts look where this one does.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # of something that the module itself imports
        raise SlatewiseError(
            f"there is no module '{error.name}' to take a {kind} from.",
            "Check the path; modules are looked for here and among installed packages.",
        ) from error


def _make(found: type, kind: str) -> Any:
    try:
        return found()
    except TypeError as error:
        raise SlatewiseError(
            f"{found.__name__} cannot be made without arguments ({error}).",
            f"Make the {kind} in its module, and give the import path of that object.",
        ) from error
