"""Column names and conventions of logs and items tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from slatewise.config import Config, read_toml
from slatewise.errors import InputError, SlatewiseError


class _Format(Config):
    def mapped(self, pairs: Sequence[str]) -> Self:
        """Return a copy with `field=value` pairs applied, as the command line gives them."""
        changes = {}
        for pair in pairs:
            field, equals, value = pair.partition("=")
            if not equals or field not in type(self).model_fields:
                raise SlatewiseError(
                    f"'{pair}' is not a mapping.",
                    f"Write FIELD=COLUMN, with FIELD one of {', '.join(type(self).model_fields)}.",
                )
            changes[field] = value
        return self.build(self.model_dump() | changes, "mapping")


class LogFormat(_Format):
    """Columns and conventions of a log, one row per interaction or one row per impression."""

    shape: Literal["auto", "interactions", "impressions"] = "auto"
    """One row per interaction or per impression; `auto` looks for the slate column."""

    user_id: str = "user_id"
    """Column of the user."""
    time: str = "time"
    """Column of the time: a timestamp, or an integer that grows with time."""
    source: str = "source"
    """Column of where the slate came from."""
    position: str = "position"
    """Column of a position: of the click, counted from 1; in an impression log, of the item."""

    split: str = "split"
    """Column of the part of the split: train, valid or test (only with --split column)."""

    slate: str = "slate"
    """Column of the items seen, in shown order (interactions)."""
    click: str = "click"
    """Column of the clicked item, or list of clicked items (interactions)."""

    slate_id: str = "slate_id"
    """Column that tells the slates of a user apart (impressions)."""
    item_id: str = "item_id"
    """Column of the item shown (impressions)."""
    clicked: str = "clicked"
    """Column that is true where the item was clicked (impressions)."""

    default_source: str | None = None
    """Source of every slate when the log has no such column."""
    no_click: str | None = None
    """Value of `click` that means no click, beside null and empty."""
    delimiter: str | None = None
    """What separates the items of a slate in a text file; by default the first of | ; , and tab
    that occurs. JSON lists are recognised by their bracket."""
    time_unit: Literal["s", "ms", "us", "ns", "order"] | None = None
    """Unit of a numeric time since 1970, or `order`; without it, integers have the unit in which
    all are times of the years 1990 to 2040, and are only an order if there is none."""
    time_format: str | None = None
    """How text times are written, such as %d.%m.%y %H:%M; without it, what is clear by itself or by
    all dates of the column is read."""

    @model_validator(mode="after")
    def _check_time_format(self) -> Self:
        if self.time_format is None:
            return self
        if not any(year in self.time_format for year in ("%Y", "%y")):
            raise ValueError("time_format has no year: write it like %d.%m.%Y %H:%M")
        if self.time_unit is not None:
            raise ValueError("time_unit is for numbers and time_format for text: give one of them")
        return self


class ItemsFormat(_Format):
    """Columns of an items table; every other column is carried along."""

    item_id: str = "item_id"
    """Column of the item."""
    group: str = "group"
    """Column of the item's group."""


def load_formats(path: str | Path) -> tuple[LogFormat, ItemsFormat]:
    """Read `[log]` and `[items]` from a TOML file."""
    document = read_toml(path)
    unknown = sorted(set(document) - {"log", "items"})
    if unknown:
        raise InputError(
            f"unknown section '{unknown[0]}'.", "A mapping has [log] and [items].", file=path
        )
    return (
        LogFormat.build(document.get("log", {}), f"{path}, [log]"),
        ItemsFormat.build(document.get("items", {}), f"{path}, [items]"),
    )
