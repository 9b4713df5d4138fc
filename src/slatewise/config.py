"""Configuration: frozen, validated, and refused in words a person can act on."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from slatewise.errors import InputError, SlatewiseError


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
            place = f"{where}, '{field}'" if field else where
            raise SlatewiseError(
                f"{place}: {first['msg']}.", f"The fields are {', '.join(cls.model_fields)}."
            ) from error


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file, or say what is wrong with it."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", file=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not TOML: {error}.", file=path) from error
