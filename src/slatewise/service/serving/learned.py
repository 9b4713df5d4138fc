"""What a version has learned between nights, kept beside its run in pieces.

A piece has the items that were moved since an earlier number in the store, as they are at a later
one; now and then one has all that were ever moved. So a worker writes and reads what has changed,
and one that starts reads the last whole piece and those after it. Rows are as they are, not by how
much they moved: whoever is anywhere between the two numbers of a piece may take it.

Shapes: R items, D dimensions.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slatewise.files import atomic_file
from slatewise.model.fitted import ItemId
from slatewise.training import runs

logger = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

PIECES: Final = "learned-*"
WHOLE: Final = -1
"""Since when, in the name of a whole piece."""
_MOST: Final = 60
"""Pieces between two whole ones, at most: a start reads all of them."""


class LearnedItems(NamedTuple):
    """Items as a version has learned them, as of a number in the store."""

    number: int
    rows: Ints
    """[R] of the version's table"""
    ids: list[ItemId]
    """[R]"""
    means: Floats
    """[R, D + 1], biases last"""
    scales: Floats
    """[R, D + 1]"""
    since: int = WHOLE
    """the number since which these were moved; `WHOLE` if they are all that ever were"""

    def write(self, run: Path) -> bool:
        """Keep them beside a run; False if others have kept what is newer, or as new and whole."""
        there = [one for one in pieces(run) if one.since in (WHOLE, self.since)]
        if max((one.number for one in there), default=-1) >= self.number:
            return False
        table = pl.DataFrame(
            {
                "row": self.rows,
                "item_id": pl.Series(self.ids, dtype=pl.String),
                "mean": self.means,
                "scale": self.scales,
            }
        )
        about = {"fingerprint": runs.fingerprint(run)}
        with atomic_file(Piece(self.number, self.since).path(run)) as partial:
            table.write_parquet(partial, metadata=about)
        if self.since == WHOLE:
            _forget(run, self.number)
        return True

    @classmethod
    def read(cls, run: Path, after: int = WHOLE) -> "LearnedItems | None":
        """Read what was learned since a number, if that is known, else all, in order of rows.

        None if nothing later than `after` is kept, or that is of another model.
        """
        try:
            chain = _chain(pieces(run), after)
            tables = list(_tables(run, chain))
            if len(tables) < len(chain) or not chain:
                return None
            # Of a row in several pieces, the last counts.
            table = pl.concat(tables).unique("row", keep="last").sort("row")
            means, scales = (
                np.array(table[name].to_numpy(), np.float32) for name in ("mean", "scale")
            )
            rows, ids = table["row"].to_numpy().astype(np.int64), table["item_id"].to_list()
            return cls(chain[-1].number, rows, ids, means, scales, chain[0].since)
        except FileNotFoundError:  # others have just replaced it
            return None
        except (OSError, ValueError, KeyError, pl.exceptions.PolarsError):
            logger.warning("What was learned between nights is damaged: %s.", run / PIECES)
            return None


class Piece(NamedTuple):
    """A file of learned items, by its name."""

    number: int
    since: int

    def path(self, run: Path) -> Path:
        """Return where it is."""
        since = "all" if self.since == WHOLE else self.since
        return run / f"learned-{self.number}-{since}.parquet"


def pieces(run: Path) -> list[Piece]:
    """Return what is kept beside a run, in the order of numbers, whole ones last."""
    names = [file.stem.split("-")[1:] for file in run.glob(f"{PIECES}.parquet")]
    found = [Piece(int(to), WHOLE if of == "all" else int(of)) for to, of in names]
    return sorted(found, key=lambda one: (one.number, one.since == WHOLE))


def is_whole_due(run: Path, number: int) -> bool:
    """Return whether those since the last whole piece, up to a number, have grown as large."""
    there = pieces(run)
    whole = max((one.number for one in there if one.since == WHOLE), default=None)
    if whole is None:
        return True
    later = [one for one in there if whole < one.number <= number]
    try:
        size = sum(one.path(run).stat().st_size for one in later)
        return len(later) >= _MOST or size >= Piece(whole, WHOLE).path(run).stat().st_size
    except FileNotFoundError:
        return False


def _chain(there: list[Piece], after: int) -> list[Piece]:
    """Return the pieces that lead from a number to the last one; none if that is known."""
    last = max((one.number for one in there), default=-1)
    if last <= after:
        return []
    found = _steps(there, after)
    if found and found[-1].number == last:
        return found
    wholes = [one for one in there if one.since == WHOLE]
    if not wholes:
        return []
    found = [wholes[-1], *_steps(there, wholes[-1].number)]
    return found if found[-1].number > after else []


def _steps(there: list[Piece], at: int) -> list[Piece]:
    """Return pieces that follow each other from a number on."""
    found = []
    for one in there:
        if one.since != WHOLE and one.since <= at < one.number:
            found.append(one)
            at = one.number
    return found


def _tables(run: Path, chain: list[Piece]) -> Iterator[pl.DataFrame]:
    """Read pieces, as far as they are of the model."""
    fingerprint = runs.fingerprint(run) if chain else None
    for one in chain:
        file = one.path(run)
        if pl.read_parquet_metadata(file)["fingerprint"] != fingerprint:
            return
        yield pl.read_parquet(file, glob=False)


def _forget(run: Path, number: int) -> None:
    """Remove what a whole piece replaces.

    Those since the whole piece before it stay: other workers are about to take them.
    """
    wholes = [one.number for one in pieces(run) if one.since == WHOLE and one.number < number]
    for one in pieces(run):
        older = one.since == WHOLE and one.number < number
        if older or (wholes and one.number <= max(wholes)):
            one.path(run).unlink(missing_ok=True)
