"""Kinds of the columns of an items table, named or guessed: number, category, tags, embedding."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

import polars as pl

from slatewise.data import parsing
from slatewise.data.columns import Columns
from slatewise.data.tables import ROW, open_tables
from slatewise.errors import InputError, SlatewiseError
from slatewise.features.item_columns import Kind, typed_columns
from slatewise.features.item_features import MOST_CATEGORIES

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_LIST: Final = r"^\["


def parse_kinds(text: str) -> dict[str, Kind | None]:
    """Read names of columns, some with their kind: `price,brand=category`."""
    asked: dict[str, Kind | None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, word = (piece.strip() for piece in part.partition("="))
        kind = next((kind for kind in KINDS if kind == word), None)
        if word and kind is None:
            raise SlatewiseError(
                f"'{word}' is no kind of feature.", f"Column '{name}' may be {', '.join(KINDS)}."
            )
        asked[name] = kind
    if not asked:
        raise SlatewiseError("no column is named.", "Write names as price,brand=category.")
    return asked


def item_kinds(path: str | Path, asked: Mapping[str, Kind | None] | None = None) -> dict[str, Kind]:
    """Return the kind of each column asked for, or of all but the ids and groups of items.

    A kind that is not given is guessed: lists of texts are tags, others embeddings; what is
    written as numbers is a number, and if only most of it is, the first that is not is refused with
    its row; everything else is a category, unless nearly every row has one of its own.
    """
    table = open_tables(path, "items")[0]
    if asked is None:
        known = (ROW, Columns.ITEM, Columns.GROUP)
        asked = {name: None for name in table.schema if name not in known}
        if not asked:
            raise InputError(
                "the items have no further column.",
                "Bring a table with a column for each feature, and item_id.",
                file=table.path,
            )
    unnamed = [name for name, kind in asked.items() if kind is None]
    for name in unnamed:
        table.require(name, "--features", "price,brand=category")
    rows = table.read(unnamed)
    return {name: kind or _guess(rows[name], rows[ROW], table.path) for name, kind in asked.items()}


def usable_kinds(items: pl.DataFrame, file: Path) -> tuple[dict[str, Kind], dict[str, str]]:
    """Return the kinds of all columns that can be features, and why others cannot.

    Of all but the ids and groups of items.
    """
    kinds: dict[str, Kind] = {}
    skipped = {}
    rows = items.with_row_index(ROW, offset=1)
    for name in items.columns:
        if name in (ROW, Columns.ITEM, Columns.GROUP):
            continue
        try:
            kind = _guess(rows[name], rows[ROW], file)
            typed_columns(rows, {name: kind}, file)
        except InputError as error:
            skipped[name] = error.problem.rpartition(f"column '{name}': ")[2]
        else:
            kinds[name] = kind
    return kinds, skipped


def _guess(values: pl.Series, rows: pl.Series, file: Path) -> Kind:
    dtype, name = values.dtype, values.name
    if dtype == pl.String:
        return _guess_text(values, rows, file)
    if isinstance(dtype, pl.List | pl.Array):
        return _guess_lists(values, file)
    if dtype.is_numeric() or dtype == pl.Boolean:
        return "number"
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return "category"
    raise InputError(
        f"values of type {dtype} are no feature as they are.",
        f"Write them as numbers, or leave the column out: --features {name}-in-hours,brand.",
        file=file,
        column=name,
    )


def _guess_text(values: pl.Series, rows: pl.Series, file: Path) -> Kind:
    """Guess the kind of what is written as text."""
    texts = values.str.strip_chars().replace("", None)
    given = texts.is_not_null()
    count, different = int(given.sum()), texts.drop_nulls().n_unique()
    if not count:
        raise InputError(
            "the column is empty.", "Leave it out, or fill it in.", file=file, column=values.name
        )
    if texts.str.contains(_LIST).sum() * 2 > count:
        return _guess_lists(parsing.lists(texts, None).alias(values.name), file)
    odd = given & texts.cast(pl.Float64, strict=False).is_null()
    if int(odd.sum()) * 2 < count:
        if odd.any():
            at = int(odd.arg_max() or 0)
            raise InputError(
                f"{texts[at]!r} is not a number, and most of the column are.",
                f"Correct it or leave it empty, or name its kind: --features "
                f"{values.name}=category.",
                file=file,
                row=int(rows[at]),
                column=values.name,
            )
        return "number"
    _refuse_names(values.name, different, count, file)
    return "category"


def _guess_lists(values: pl.Series, file: Path) -> Kind:
    """Guess the kind of lists: embeddings if of numbers, but not if of ids, more or fewer a row."""
    parts = values.explode(empty_as_null=False).drop_nulls()
    of_numbers = parts.dtype.is_numeric() or parts.dtype.is_nested()
    if of_numbers or parts.cast(pl.Float64, strict=False).count() * 2 > len(parts):
        one_length = (
            isinstance(values.dtype, pl.Array) or values.list.len().drop_nulls().n_unique() <= 1
        )
        if one_length or not parts.dtype.is_integer():
            return "embedding"
    _refuse_names(values.name, parts.n_unique(), len(parts), file)
    return "tags"


def _refuse_names(column: str, different: int, count: int, file: Path) -> None:
    """Refuse values most of which are those of one item."""
    if different > MOST_CATEGORIES and different * 2 > count:
        raise InputError(
            f"{different:,} different values in {count:,} rows name items and describe none.",
            "Leave the column out by naming the others: --features price,brand.",
            file=file,
            column=column,
        )
