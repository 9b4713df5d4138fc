"""Errors with a problem and a remedy, for people."""

from pathlib import Path


def install_remedy(extra: str) -> str:
    """Return the command that installs an optional part of the package.

    From the source, not by name: slatewise is not on PyPI, where anyone could take its name.
    """
    return f"In the folder of slatewise's source: pip install '.[{extra}]'"


class SlatewiseError(Exception):
    """A problem the user can fix: what happened, and the remedy."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        """Return the problem, then the remedy on its own line."""
        return f"{self.problem}\n{self.remedy}" if self.remedy else self.problem


class InputError(SlatewiseError):
    """Input that cannot be used, with its location in the file.

    Rows count from 1, the first row of data; a CSV header is not a row.
    """

    def __init__(
        self,
        problem: str,
        remedy: str = "",
        *,
        file: str | Path | None = None,
        row: int | None = None,
        column: str | None = None,
    ) -> None:
        self.file, self.row, self.column = file, row, column
        location = ", ".join(
            part
            for part in (
                str(file) if file is not None else "",
                f"row {row:,}" if row is not None else "",
                f"column '{column}'" if column is not None else "",
            )
            if part
        )
        super().__init__(f"{location}: {problem}" if location else problem, remedy)
