"""Slates for a file of users, written in parts so that it can be interrupted and resumed."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from slatewise.data import parsing
from slatewise.data.columns import Columns
from slatewise.data.formats import LogFormat
from slatewise.data.log import parse_times, with_short_names
from slatewise.data.tables import open_tables
from slatewise.data.time_columns import guessed
from slatewise.errors import InputError, SlatewiseError
from slatewise.features.user_history import NO_HISTORY, UserHistory
from slatewise.files import atomic_file
from slatewise.slates.recommender import Recommender
from slatewise.slates.strategies import Ranker, Strategy
from slatewise.slates.users import Ints, KnownUser, Users

PART_USERS = 2_048
_THREAD_USERS = 64

Progress = Callable[[str, int, int | None], None]


class Visitors(Protocol):
    """Users who get a slate each, with their histories."""

    @property
    def users(self) -> pl.Series:
        """Their ids, one each."""

    @property
    def digest(self) -> str:
        """Hash that identifies the users and their histories."""

    def histories(self, first: int, count: int) -> tuple[list[UserHistory], int]:
        """Return what `count` users did, from number `first` on, and how many items are unknown."""


class ClickingUsers:
    """The users of a table of clicks: `user_id`, and `item_id` as a list."""

    def __init__(self, clicks: pl.DataFrame, recommender: Recommender) -> None:
        self._clicks, self._known = clicks, recommender.items.known
        self.users = clicks[Columns.USER]
        rows = clicks.hash_rows(seed=0).to_numpy().tobytes()
        self.digest = hashlib.blake2b(rows).hexdigest()

    def histories(self, first: int, count: int) -> tuple[list[UserHistory], int]:
        """Return what `count` users did, from number `first` on, and how many items are unknown."""
        rows = self._clicks[Columns.ITEM].slice(first, count).to_list()
        known = [self._known(row) for row in rows]
        histories = [UserHistory.of_clicks(clicks) for clicks, _ in known]
        return histories, sum(len(lost) for _, lost in known)


def read_histories(
    file: str | Path, item_type: type, names: LogFormat | None = None
) -> pl.DataFrame:
    """Read who clicked what: a row per user with her clicks as a list, in order of appearance.

    The file has a row per click, `user_id` and `item_id`, oldest first or with a `time`; `names`
    may name them otherwise, the item also as `click`. A row without an item is a user without a
    click.
    """
    target: parsing.IdType = pl.Int64 if item_type is int else pl.String
    tables = open_tables(file, "users")
    layout = with_short_names(names or LogFormat(), tables[0])
    schema = tables[0].schema
    clicked = layout.click if layout.item_id not in schema and layout.click in schema else None
    columns = {"user_id": layout.user_id, "item_id": clicked or layout.item_id}
    if layout.time in schema:
        columns["time"] = layout.time
        layout = layout.model_copy(update=guessed(tables, layout))
    parts = []
    for table in tables:
        hint = "with --mapping, or a column"  # of a log, or of clicks
        for field, name in columns.items():
            table.require(name, hint, field)
        rows = table.read(list(columns.values()))
        items = parsing.parse_ids(rows, columns["item_id"], target, table.path)
        read = [rows[columns["user_id"]].alias(Columns.USER), items.alias(Columns.ITEM)]
        if "time" in columns:
            read.append(parse_times(table, rows, layout).alias(Columns.TIME))
        parts.append(pl.DataFrame(read))
    clicks = pl.concat(parts)
    if not len(clicks):
        raise InputError("the table has no row.", "Give a row for every user.", file=Path(file))
    if Columns.TIME in clicks.columns:
        clicks = clicks.sort(Columns.TIME, maintain_order=True)
    return clicks.group_by(Columns.USER, maintain_order=True).agg(pl.col(Columns.ITEM).drop_nulls())


def read_candidates(file: str | Path, item_type: type) -> pl.DataFrame:
    """Read whose items are to be ordered: `user_id`, and `item_id` as a list.

    The file has a row per user with `items`, a list or text with a JSON list or a delimiter, or a
    row per item with `item_id`.
    """
    target: parsing.IdType = pl.Int64 if item_type is int else pl.String
    parts = []
    for table in open_tables(file, "candidates"):
        listed = "items" in table.schema
        item = "items" if listed else table.require(Columns.ITEM, "a column", "items")
        user = table.require(Columns.USER, "a column", Columns.USER)
        rows = table.read([user, item])
        convert = partial(_lists if listed else parsing.ids, target=target)
        found = parsing.parse(
            rows,
            item,
            convert,
            file=table.path,
            wanted="a list of item ids" if listed else "an item id",
            remedy="Give a list column, or text with JSON lists or a delimiter.",
        )
        parts.append(rows.select(user).with_columns(found.alias(Columns.ITEM)))
    asked = pl.concat(parts)
    if not len(asked):
        raise InputError("the table has no row.", "Give a row for every user.", file=Path(file))
    if asked.schema[Columns.ITEM] == pl.List(target):
        asked = asked.explode(Columns.ITEM, empty_as_null=True, keep_nulls=True)
    return asked.group_by(Columns.USER, maintain_order=True).agg(pl.col(Columns.ITEM).drop_nulls())


def _lists(values: pl.Series, target: parsing.IdType) -> pl.Series:
    if values.dtype == pl.String:
        values = parsing.lists(values, parsing.guess_delimiter(values))
    return parsing.id_lists(values, target)


def rank_to_file(
    recommender: Recommender,
    asked: pl.DataFrame,
    visitors: Visitors | None,
    out: Path,
    *,
    k: int | None,
    progress: Progress,
    source: str | None = None,
) -> dict[str, int]:
    """Order the items asked for of each user, and write a row per user and position.

    The lists are shown at a source; None for the usual one of the model. Users whom `visitors` do
    not have are new. Returns counts, by what they count.
    """
    number = recommender.source_number(source)
    known = {} if visitors is None else {str(u): n for n, u in enumerate(visitors.users.to_list())}
    counts = {"users": len(asked), "  of them new": 0, "items left out": 0, "unknown clicks": 0}
    columns: dict[str, list[Any]] = {name: [] for name in ("user", "items", "utility", "share")}
    for done, (user, items) in enumerate(asked.iter_rows(), start=1):
        history, lost = NO_HISTORY, 0
        if visitors is not None and str(user) in known:
            (history,), lost = visitors.histories(known[str(user)], 1)
        else:
            counts["  of them new"] += 1
        ranked = recommender.maker.rank(KnownUser(history), items, k, number)
        counts["items left out"] += len(ranked.left_out)
        counts["unknown clicks"] += lost
        columns["user"] += [user] * len(ranked)
        columns["items"] += ranked.items
        columns["utility"] += ranked.utilities.tolist()
        columns["share"] += ranked.probabilities.tolist()
        progress("ranking", done, len(asked))
    users = pl.Series(columns["user"], dtype=asked.schema[Columns.USER])
    rows = pl.DataFrame(
        {
            Columns.USER: users,
            Columns.ITEM: pl.Series(columns["items"], dtype=_id_type(recommender)),
            "utility": pl.Series(columns["utility"], dtype=pl.Float64),
            "probability": pl.Series(columns["share"], dtype=pl.Float64),
        }
    )
    position = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(Columns.USER)
    rows.insert_column(1, rows.select(position.alias(Columns.POSITION)).to_series())
    _write(out, rows)
    return counts


def recommend_to_file(
    recommender: Recommender,
    visitors: Visitors,
    out: Path,
    *,
    strategy: Strategy,
    k: int,
    seed: int,
    about: dict[str, Any],
    progress: Progress,
    ranker: Ranker | None = None,
    source: str | None = None,
) -> int:
    """Write a Parquet file with a row per user and position; return how many items were unknown.

    User number b has seed + b. Parts stay beside the file until it is whole; called again with the
    same arguments, it resumes where it stopped. With a `ranker`, all users of a part are ranked by
    it at once, such as on a GPU. Slates are made for a source, None for the model's usual one.
    """
    users, shown_at = visitors.users, recommender.source_number(source)
    about = about | {"source": source, "users": len(users), "histories": visitors.digest}
    parts = out.with_name(f".{out.name}.parts")
    _open_parts(parts, about | {"strategy": repr(strategy), "k": k, "seed": seed})
    unknown = 0
    starts = range(0, len(users), PART_USERS)
    for number, start in enumerate(starts):
        file = parts / f"{number:06d}.parquet"
        histories, lost = visitors.histories(start, PART_USERS)
        unknown += lost
        if not file.exists():
            asking = Users.of_histories(
                histories, seed + start, show_clicked=False, source=shown_at
            )
            if ranker is None:
                shown = _slates(recommender, strategy, asking, k)
            else:
                shown = strategy.slates(ranker, asking, min(k, recommender.items.shown))
            here = users.slice(start, PART_USERS)
            _write(file, _rows(recommender, here, shown, seed + start))
        progress("recommending", start + len(histories), len(users))
    _join([parts / f"{number:06d}.parquet" for number in range(len(starts))], out)
    shutil.rmtree(parts)
    return unknown


def _slates(recommender: Recommender, strategy: Strategy, users: Users, k: int) -> Ints:
    """Make slates [B, k] on all cores; the division into threads changes nothing."""

    def make(some: Users) -> Ints:
        return recommender.maker.rows(some, k, strategy)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return np.concatenate(list(threads.map(make, users.pieces(_THREAD_USERS))))


def _rows(recommender: Recommender, users: pl.Series, shown: Ints, seed: int) -> pl.DataFrame:
    who, position = np.nonzero(shown >= 0)
    items = recommender.items.ids_of(shown[who, position])
    return pl.DataFrame(
        {
            Columns.USER: users.gather(who),
            Columns.POSITION: (position + 1).astype(np.int32),
            Columns.ITEM: pl.Series(items, dtype=_id_type(recommender)),
            "seed": seed + who,
        }
    )


def _id_type(recommender: Recommender) -> parsing.IdType:
    return pl.Int64 if isinstance(recommender.model.item_ids[0], int) else pl.String


def _open_parts(parts: Path, identity: dict[str, Any]) -> None:
    note = parts / "about.json"
    if note.exists() and json.loads(note.read_text()) == json.loads(json.dumps(identity)):
        return
    if parts.exists():
        raise SlatewiseError(
            f"{parts} holds a part of other slates.", "Resume those, or delete it."
        )
    parts.mkdir(parents=True)
    note.write_text(json.dumps(identity), encoding="utf-8")


def _write(file: Path, rows: pl.DataFrame) -> None:
    with atomic_file(file) as partial:
        rows.write_parquet(partial)


def _join(parts: list[Path], out: Path) -> None:
    schema = pq.read_schema(parts[0])
    with atomic_file(out) as partial, pq.ParquetWriter(partial, schema) as writer:
        for part in parts:
            writer.write_table(pq.read_table(part))
