"""Search for the damaged row of a text file that a reader could not parse."""

import json
from collections.abc import Iterable
from typing import NamedTuple

_VALUE = "a number or text"
_JSON_KINDS = {
    bool: "true or false",
    int: _VALUE,
    float: _VALUE,
    str: _VALUE,
    list: "a list",
    dict: "an object",
}

ENCODING_ERRORS = "surrogateescape"
"""How to open a file for these functions, so that bytes that are not UTF-8 can be found."""


class Damage(NamedTuple):
    """What is wrong and where; rows count from 1."""

    problem: str = ""
    row: int | None = None
    column: str | None = None


def damaged_fields(rows: Iterable[list[str]], width: int) -> Damage:
    """Find the first row of separated values that has more fields than there are columns."""
    for row, fields in enumerate(rows, start=1):
        if len(fields) > width:
            return Damage(f"the row has {len(fields)} fields instead of {width}.", row)
        if not _is_unicode("".join(fields)):
            return Damage("the row is not UTF-8.", row)
    return Damage()


def damaged_json(lines: Iterable[str]) -> Damage:
    """Find the first line that is not JSON, or holds a value of another kind than those before."""
    kinds: dict[str, str] = {}
    for row, line in enumerate((line for line in lines if line.strip()), start=1):
        if not _is_unicode(line):
            return Damage("the row is not UTF-8.", row)
        try:
            values = json.loads(line)
        except ValueError as error:
            return Damage(f"the row is not JSON ({error}).", row)
        if not isinstance(values, dict):
            return Damage("the row is not a JSON object.", row)
        for column, value in values.items():
            kind = _JSON_KINDS.get(type(value))
            if kind and kinds.setdefault(column, kind) != kind:
                problem = f"{value!r} is {kind}, and in rows before it was {kinds[column]}."
                return Damage(problem, row, column)
    return Damage()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
