"""The names of the columns in a log and in an items table."""

from typing import Final


class Columns:
    """Every column name of the log format."""

    USER: Final = "user_id"
    TIME: Final = "time"
    SLATE: Final = "slate"
    CLICK: Final = "click"
    SOURCE: Final = "source"
    POSITION: Final = "position"
    """In an interaction log: where in the slate the click was, counted from 1."""

    ITEM: Final = "item_id"
    CLICKED: Final = "clicked"

    GROUP: Final = "group"


LOG_FILES: Final = ("log.parquet", "items.parquet")
"""The files of a directory in the log format."""

UNKNOWN: Final = "unknown"
"""The source of slates without one, and the group of items without one."""
