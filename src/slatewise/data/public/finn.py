"""FINN.no slates: searches and recommendations of a marketplace, in NumPy archives."""

import json
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import numpy as np
import polars as pl

from slatewise.data.columns import Columns
from slatewise.data.public.finn_steps import (
    FIRST_ITEM,
    PER_STEP,
    Array,
    damaged,
    interactions,
    require_range,
)
from slatewise.data.public.npz import BROKEN_ARCHIVE, NpzRows, not_an_archive
from slatewise.data.public.tally import PublicLog, Tally
from slatewise.errors import InputError


def read_finn(source: Path, tally: Tally, chunk_size: int) -> PublicLog:
    """Open `data.npz`, `itemattr.npz` and `ind2val.json`."""
    for name in ("data.npz", "itemattr.npz", "ind2val.json"):
        if not (source / name).is_file():
            raise InputError(
                "the file is missing.",
                f"Fetch the dataset with `slatewise download finn {source}`.",
                file=source / name,
            )
    groups = _groups(source)
    arrays = NpzRows(source / "data.npz", ["userId", "slate", *PER_STEP])
    users, steps = _require_shapes(arrays)
    per_block = max(1, chunk_size // max(1, steps))
    return PublicLog(
        _log(arrays, len(groups), tally, per_block), iter([_items(groups)]), users * steps
    )


def _require_shapes(arrays: NpzRows) -> tuple[int, int]:
    """Return the number of users and of steps once all arrays agree on them."""
    shape = arrays.shape("slate")
    if len(shape) != 3:
        problem = f"found the shape {shape}, expected users × steps × positions."
        raise damaged(arrays.file, "slate", problem)
    for name, expected in {"userId": shape[:1], **dict.fromkeys(PER_STEP, shape[:2])}.items():
        if arrays.shape(name) != expected:
            problem = f"found the shape {arrays.shape(name)}, expected {expected} as in 'slate'."
            raise damaged(arrays.file, name, problem)
    return shape[0], shape[1]


def _log(
    arrays: NpzRows, items: int, tally: Tally, users: int
) -> Generator[pl.DataFrame, None, None]:
    doubts: Counter[str] = Counter()
    for start, block in arrays.blocks(users):
        require_range(arrays.file, block, start, items)
        yield interactions(arrays.file, block, start, tally, doubts)


def _items(groups: list[str]) -> pl.DataFrame:
    ids = pl.Series(Columns.ITEM, range(FIRST_ITEM, len(groups)), dtype=pl.Int64)
    return pl.DataFrame([ids, pl.Series(Columns.GROUP, groups[FIRST_ITEM:], dtype=pl.String)])


def _groups(source: Path) -> list[str]:
    """Return the name of each item's group, by item id. Shape: [I]."""
    file = source / "itemattr.npz"
    codes, names = _codes(file), _names(source / "ind2val.json")
    for item in np.flatnonzero(~np.isin(codes, list(names)))[:1]:
        problem = f"category {codes[item]} has no name in ind2val.json."
        raise damaged(file, "category", problem, row=int(item))
    return [names[code] for code in codes.tolist()]


def _codes(file: Path) -> Array:
    try:
        # Small enough to load whole: 1.3 million items.
        with np.load(file, allow_pickle=False) as arrays:
            codes = arrays.get("category")
    except (*BROKEN_ARCHIVE, TypeError) as error:  # TypeError: a bare array, not an archive
        raise not_an_archive(file, error) from error
    if codes is None:
        raise damaged(file, "category", "the array is missing.")
    # Published as float64, although every value is whole.
    if (
        codes.ndim != 1
        or codes.dtype.kind not in "iuf"
        or not np.array_equal(codes, np.rint(codes))
    ):
        raise damaged(file, "category", "expected one whole number per item.")
    return np.asarray(codes, dtype=np.int64)


def _names(file: Path) -> dict[int, str]:
    try:
        names = json.loads(file.read_text(encoding="utf-8"))["category"]
        return {int(code): str(name) for code, name in names.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f'expected JSON like {{"category": {{"3": "BAP,antiques"}}}} ({error!r}).',
            "Fetch the file again.",
            file=file,
            column="category",
        ) from error
