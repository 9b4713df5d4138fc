"""Configuration: frozen and validated, with errors that a person can act on."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from slatewise.errors import InputError, SlatewiseError


class Search(NamedTuple):
    """The range in which tuning searches a setting: `Annotated[float, Search(0.1, 10)]`."""

    low: float
    high: float


class SettingError(ValueError):
    """A value that a setting cannot have, with the remedy; validators raise it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.remedy = remedy

    @classmethod
    def of(cls, error: SlatewiseError, where: str = "") -> Self:
        """Return what else would be wrapped, with its remedy."""
        return cls(f"{where}{error.problem.rstrip('.')}", error.remedy)


def require_known(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse the first name that is unknown, and list those that are known."""
    known = list(known)
    for name in names:
        if name not in known:
            raise SettingError(f"there is no {what} '{name}'", f"Choose from {', '.join(known)}.")


class Config(BaseModel):
    """Base of every configuration; the text under a field is its documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def build(cls, values: Mapping[str, Any], where: str) -> Self:
        """Validate `values`; a problem names `where` they came from, the field and the remedy."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            where = f"{where}, '{field}'" if field else where
            problem = first["msg"].removeprefix("Value error, ")
            remedy = getattr(first.get("ctx", {}).get("error"), "remedy", "Correct the value.")
            if first["type"] == "extra_forbidden":
                problem, remedy = "there is no such setting", _settings_beside(cls, first["loc"])
            raise SlatewiseError(f"{where}: {problem}.", remedy) from error

    @classmethod
    def setting_names(cls) -> list[str]:
        """Return the names of all settings, for messages about unknown ones."""
        return list(cls.model_fields)


def _settings_beside(config: type[Config], path: tuple[int | str, ...]) -> str:
    """List the settings of the section in which the last part of `path` is unknown."""
    for part in path[:-1]:
        if str(part) not in config.model_fields:  # a key of sections by name
            continue
        section: Any = config.model_fields[str(part)].annotation
        section = (section, *get_args(section))[-1]
        if isinstance(section, type) and issubclass(section, Config):
            config = section
    return f"The settings are {', '.join(config.setting_names())}."


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file, or raise an error that names the problem."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror}).", "Check the path.", file=path
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not TOML: {error}.", "Correct the file.", file=path) from error
