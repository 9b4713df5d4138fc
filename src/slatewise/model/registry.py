"""Parts of a model by name: a module in the folder of its kind is a part, and needs no other line.

Folders are listed without loading a module, which would load torch. A part that lives elsewhere is
named by its import path, such as `mypackage.attention:Attention`.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from slatewise.errors import SlatewiseError
from slatewise.plugins import load_object

P = TypeVar("P")


class Registry(Generic[P]):
    """The parts of one kind: modules of a folder that define PART, and what users bring."""

    def __init__(self, kind: str, folder: str) -> None:
        self.kind = kind
        self._folder = folder
        self._loaded: dict[str, type[P]] = {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parts that come with slatewise, in alphabetical order: modules that define PART."""
        files = (Path(__file__).parent / self._folder).glob("[!_]*.py")
        return tuple(sorted(f.stem for f in files if "\nPART" in f.read_text(encoding="utf-8")))

    def __getitem__(self, name: str) -> type[P]:
        """Return a part by its name or import path, refusing what is none."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all parts: those that come with slatewise, and others in use."""
        yield from dict.fromkeys([*self.names, *self._loaded])

    def register(self, part: type[P]) -> type[P]:
        """Add a part that has no import path, such as one written in a notebook."""
        self._loaded[self._from_outside(part).name] = part  # type: ignore[attr-defined]
        return part

    def _load(self, name: str) -> type[P]:
        if ":" in name:
            return self._from_outside(load_object(name, self.kind))
        if name not in self.names:
            raise SlatewiseError(
                f"there is no {self.kind} '{name}'.",
                f"Choose one of {', '.join(self)}, or give an import path, package.module:Name.",
            )
        return self._checked(import_module(f"slatewise.model.{self._folder}.{name}").PART)

    def _from_outside(self, part: Any) -> type[P]:
        """Refuse a class that cannot be a part without a change of slatewise itself."""
        package = import_module(f"slatewise.model.{self._folder}")
        checked: Any = self._checked(part, getattr(package, "OUTSIDE", None))
        if checked.name in self.names and checked is not self[checked.name]:
            raise SlatewiseError(
                f"there is a {self.kind} '{checked.name}' already.",
                f"Give {checked.__name__} another name.",
            )
        return checked  # type: ignore[no-any-return]

    def _checked(self, part: Any, base: Any = None) -> type[P]:
        """Refuse a class that lacks what a part of this kind needs."""
        base = base or import_module(f"slatewise.model.{self._folder}").BASE
        if not (isinstance(part, type) and issubclass(part, base)):
            raise SlatewiseError(
                f"{part!r} is not a {self.kind}.",
                f"Derive it from {base.__module__}.{base.__name__}.",
            )
        missing = sorted(getattr(part, "__abstractmethods__", ()))
        missing += [name for name in base.needs if not hasattr(part, name)]
        if missing:
            needs = base.needs | getattr(base, "__abstractmethods__", set())
            raise SlatewiseError(
                f"{part.__name__} has no `{missing[0]}`.",
                f"A {self.kind} needs {', '.join(sorted(needs))}.",
            )
        for name, remedy in getattr(base, "has_no", {}).items():
            if getattr(part, name) is not getattr(base, name):
                raise SlatewiseError(
                    f"{part.__name__} defines `{name}`, and nothing would call it.", remedy
                )
        _refuse_restated(part)
        return part


def _refuse_restated(part: Any) -> None:
    """Refuse a class that overrides an equation, and inherits a shortcut that goes by the old one.

    It would be trained by one model and served by another.
    """
    overridden: set[str] = set()
    plain: dict[str, str] = {}
    for shortcut, equations in part.restates.items():
        owners = [each for each in part.__mro__ if shortcut in vars(each)]
        if len(owners) < 2:
            continue  # that of the base, which asks the equations themselves
        nearer = part.__mro__[: part.__mro__.index(owners[0])]
        changed = {name for name in equations for each in nearer if name in vars(each)}
        if changed:
            overridden |= changed
            plain[shortcut] = f"{owners[-1].__name__}.{shortcut}"
    if plain:
        raise SlatewiseError(
            f"{part.__name__} overrides {_listed(overridden)} and inherits {_listed(plain)}, "
            "which would go by the old one.",
            f"Define {_listed(plain)} too, as {', '.join(plain.values())} does.",
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def one_of(registry: Registry[Any]) -> str:
    """Name the parts that come with slatewise, for a person to choose from."""
    return f"{', '.join(registry.names)}, or package.module:Name"


RELEVANCES: Final = Registry[Any]("relevance", "relevance")
DYNAMICS: Final = Registry[Any]("dynamics", "dynamics")
PRIORS: Final = Registry[Any]("prior", "priors")
INITIAL_STATES: Final = Registry[Any]("initial state", "initial_states")
TERMS: Final = Registry[Any]("term", "terms")
