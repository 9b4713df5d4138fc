"""The account of a preparation: rows read, rows dropped or repaired and why, rows that remain."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import polars as pl

from slatewise.errors import InputError


class Problem(Enum):
    """Something wrong with the input that has a repair: (what, column, repair, remedy)."""

    NO_USER = ("user id is missing", "user_id", "interaction dropped", "Fill in the user.")
    NO_TIME = ("time is missing", "time", "interaction dropped", "Fill in the time.")
    EMPTY_SLATE = (
        "slate is empty",
        "slate",
        "interaction dropped",
        "Log the items that were seen.",
    )
    NO_ITEM = ("slate has a missing item", "slate", "interaction dropped", "Fill in the item id.")
    BAD_POSITION = (
        "click position is outside the slate",
        "position",
        "interaction dropped",
        "Positions count from 1, the top of the slate.",
    )
    CLICK_ELSEWHERE = (
        "click is not in the slate",
        "click",
        "interaction dropped",
        "Log what was seen; if a value means no click, name it with --no-click.",
    )
    DUPLICATE_ROW = (
        "interaction is there twice",
        None,
        "later copies dropped",
        "Remove the copies.",
    )
    DUPLICATE_ITEM = ("item is twice in its slate", "slate", "later copies removed", "Log it once.")
    POSITION_DIFFERS = (
        "click position differs from the item's place",
        "position",
        "item id believed",
        "Positions count from 1, the top of the slate.",
    )
    POSITION_ALONE = (
        "position is given without a click",
        "position",
        "taken as no click",
        "Log the clicked item too; position 0 or null goes with no click.",
    )
    SAME_POSITION = (
        "items of a slate have the same position",
        "position",
        "kept in file order",
        "Number the items of a slate in shown order.",
    )
    NO_FLAG = (
        "whether the item was clicked is missing",
        "click",
        "taken as not clicked",
        "Fill in the flag.",
    )
    SEVERAL_SOURCES = (
        "slate has several sources",
        "source",
        "first one kept",
        "A slate comes from one source; if these are several slates, tell them apart by slate_id.",
    )
    NO_SOURCE = ("source is missing", "source", "named 'unknown'", "Fill in the source.")
    UNSORTED = (
        "time lies before the user's previous row",
        "time",
        "sorted by time",
        "Sort the log by time.",
    )
    TIED = (
        "time equals that of another interaction of the user",
        "time",
        "kept in file order",
        "Log finer times.",
    )
    UNLISTED_ITEM = (
        "item is not in the items table",
        "slate",
        "put in group 'unknown'",
        "Add it to the items table.",
    )
    UNLISTED_SHOWN = (
        "slate has items that are not in the items table",
        "slate",
        "items removed, as asked",
        "Add them to the items table.",
    )
    NO_GROUP = ("item has no group", "group", "put in group 'unknown'", "Fill in the group.")
    NO_ITEM_ID = ("item id is missing", "item_id", "row dropped", "Fill in the item id.")
    DUPLICATE_ITEM_ID = ("item is listed twice", "item_id", "first row kept", "List it once.")

    def __init__(self, what: str, column: str | None, repair: str, remedy: str) -> None:
        self.what, self.column, self.repair, self.remedy = what, column, repair, remedy

    @property
    def drops_interactions(self) -> bool:
        """Whether the repair takes rows out of the log."""
        return self.repair == "interaction dropped" or self is Problem.DUPLICATE_ROW


class Reduction(Enum):
    """A reduction that was asked for."""

    NO_CLICK_SAMPLED = "without a click, not in the sample"
    CLICK_BEYOND_CAP = "clicked beyond the longest slate kept"
    LATE = "after the user's first interactions kept"
    UNLISTED_CLICK = "saw only, or clicked, items outside the items table"
    FEW = "of users with too few interactions"


@dataclass
class Finding:
    """How often a problem occurred, and where it occurred first."""

    count: int
    first: tuple[int, int]
    """number of the file and row in it, counted from 1"""
    file: str

    @property
    def row(self) -> int:
        """The row in that file."""
        return self.first[1]


@dataclass
class Report:
    """The account of one preparation."""

    strict: bool = False
    columns: dict[str, str] = field(default_factory=dict)
    """What the user's tables call the columns that problems name."""
    rows: int = 0
    """Rows read from the log: interactions, or impressions."""
    slates: int = 0
    """Slates those rows make up."""
    clicks_unfolded: int = 0
    """Interactions added because a slate had several clicks."""
    clicks_ignored: int = 0
    """Further clicks on a slate that were left aside."""
    clicks_joined: int = 0
    """Clicks that got the time of the first click on their slate."""
    findings: dict[Problem, Finding] = field(default_factory=dict)
    reductions: dict[Reduction, int] = field(default_factory=dict)
    remaining: dict[str, int] = field(default_factory=dict)

    def found(
        self, problem: Problem, rows: pl.DataFrame, files: list[Path], note: str = ""
    ) -> None:
        """Count rows (columns `file` and `row`) with a problem; in strict mode, refuse them."""
        if rows.is_empty():
            return
        (first,) = rows.select("file", "row").sort("file", "row").head(1).rows()
        file, row = files[first[0]], first[1]
        if self.strict:
            column = self.columns.get(problem.column or "", problem.column)
            raise InputError(
                f"{problem.what}{note}.", problem.remedy, file=file, row=row, column=column
            )
        finding = self.findings.setdefault(problem, Finding(0, first, str(file)))
        finding.count += rows.height
        if first < finding.first:
            finding.first, finding.file = first, str(file)

    def reduced(self, reduction: Reduction, count: int) -> None:
        """Count interactions that a reduction took out."""
        if count:
            self.reductions[reduction] = self.reductions.get(reduction, 0) + count

    def add(self, other: "Report") -> None:
        """Add the account of a later part of the same preparation."""
        self.rows += other.rows
        self.slates += other.slates
        self.clicks_unfolded += other.clicks_unfolded
        self.clicks_ignored += other.clicks_ignored
        self.clicks_joined += other.clicks_joined
        for problem, found in other.findings.items():
            own = self.findings.setdefault(problem, Finding(0, found.first, found.file))
            own.count += found.count
            if found.first < own.first:
                own.first, own.file = found.first, found.file
        for reduction, count in other.reductions.items():
            self.reduced(reduction, count)

    def summary(self) -> str:
        """Return in one line why interactions were dropped."""
        gone = [f"{f.count:,} {p.what}" for p, f in self.findings.items() if p.drops_interactions]
        gone += [f"{count:,} {reduction.value}" for reduction, count in self.reductions.items()]
        return "; ".join(gone) or "the log has no rows"

    def to_json(self) -> dict[str, Any]:
        """Return the account as plain values."""
        return {
            "rows": self.rows,
            "slates": self.slates,
            "clicks_unfolded": self.clicks_unfolded,
            "clicks_ignored": self.clicks_ignored,
            "clicks_joined": self.clicks_joined,
            "problems": [
                {
                    "what": problem.what,
                    "repair": problem.repair,
                    "remedy": problem.remedy,
                    "drops": problem.drops_interactions,
                    "count": finding.count,
                    "file": finding.file,
                    "row": finding.row,
                }
                for problem, finding in self.findings.items()
            ],
            "reductions": {r.value: count for r, count in self.reductions.items()},
            "remaining": self.remaining,
        }
