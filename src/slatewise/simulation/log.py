"""The simulated log and its truth, written chunk by chunk of users."""

import json
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slatewise.data.columns import LOG_FILES, Columns
from slatewise.files import atomic_directory
from slatewise.simulation.arrays import Bools, Floats, Ints
from slatewise.simulation.config import SimulationConfig
from slatewise.simulation.features import item_features
from slatewise.simulation.marketplace import Marketplace, stream
from slatewise.simulation.policies import FrontPagePolicy, named_policy
from slatewise.simulation.processes import ordered_results
from slatewise.version import __version__

START: Final = np.datetime64("2024-01-01T00:00:00", "us")
HOUR: Final = 3_600_000_000
"""Microseconds in an hour."""

HOURS_BETWEEN: Final = 6
"""Mean time between two interactions of a user."""


class SourceSummary(NamedTuple):
    """Slates and clicks of one source."""

    slates: int
    clicks: int

    @property
    def click_rate(self) -> float:
        """Share of the slates that were clicked; nan where there are none."""
        return self.clicks / self.slates if self.slates else float("nan")


@dataclass(frozen=True)
class LogSummary:
    """What `write_log` wrote."""

    users: int
    items: int
    search: SourceSummary
    recommendation: SourceSummary
    seen: int
    """Items seen in all slates together."""

    bytes: int
    """Size of all files written."""

    @property
    def slates(self) -> int:
        """Number of slates: rows of the log."""
        return self.search.slates + self.recommendation.slates

    @property
    def mean_scroll(self) -> float:
        """Mean number of items seen per slate."""
        return self.seen / self.slates


class Chunk(NamedTuple):
    """The N interactions of one chunk of users, by time."""

    user: Ints  # [N]
    time: Ints  # [N], microseconds since the epoch
    slates: Ints  # [N, S]
    scroll: Ints  # [N]
    clicks: Ints  # [N], −1 for none
    searched: Bools  # [N]
    state: Floats  # [N, D]
    probability: Floats  # [N, S]
    no_click: Floats  # [N]
    propensity: Floats  # [N]


class Tables(NamedTuple):
    """What a chunk of users adds to the files, and to their summary."""

    log: pa.Table
    truth: pa.Table
    counts: Ints  # [searched, clicked]
    seen: int


def write_log(
    config: SimulationConfig,
    out: str | Path,
    *,
    overwrite: bool = False,
    jobs: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> LogSummary:
    """Simulate `config` into the directory `out`, which appears when it is complete.

    With several `jobs`, chunks of users are simulated side by side in processes of their own; the
    files are the same, byte for byte. Memory holds, for each process, the item tables and two or
    three chunks, however many users there are. `progress` is called with the stage, the users
    written and their total.
    """
    market = Marketplace(config)
    counts = np.zeros((2, 2), dtype=np.int64)  # [searched, clicked]
    seen = 0
    with atomic_directory(out, overwrite=overwrite, contents=(*LOG_FILES, "truth")) as folder:
        truth = folder / "truth"
        truth.mkdir()
        description = {"version": __version__, "config": config.model_dump(mode="json")}
        (truth / "config.json").write_text(json.dumps(description, indent=2) + "\n")
        _write_items(market, folder)
        with ExitStack() as stack:
            log = stack.enter_context(_writer(folder / "log.parquet", LOG_SCHEMA))
            schema = _truth_schema(config)
            interactions = stack.enter_context(_writer(truth / "interactions.parquet", schema))
            # Compressing releases the interpreter: the two files are written at once.
            beside = stack.enter_context(ThreadPoolExecutor(1))
            made = stack.enter_context(closing(_tables(market, jobs)))
            for number, tables in enumerate(made):
                written = beside.submit(interactions.write_table, tables.truth)
                log.write_table(tables.log)
                written.result()
                counts += tables.counts
                seen += tables.seen
                if progress is not None:
                    done = min((number + 1) * config.chunk_users, config.users)
                    progress("users", done, config.users)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    recommendation, search = (SourceSummary(int(row.sum()), int(row[1])) for row in counts)
    items = config.catalogue.items
    return LogSummary(config.users, items, search, recommendation, seen, size)


def _tables(market: Marketplace, jobs: int) -> Generator[Tables, None, None]:
    """Yield the tables of all chunks in order, made by `jobs` processes."""
    numbers = _chunk_numbers(market.config)
    if min(jobs, len(numbers)) <= 1:
        return (chunk_tables(market, number) for number in numbers)
    return ordered_results(Marketplace, market.config, chunk_tables, numbers, jobs)


def chunks(market: Marketplace) -> Iterator[Chunk]:
    """Yield the log chunk by chunk."""
    return (simulate_chunk(market, number) for number in _chunk_numbers(market.config))


def _chunk_numbers(config: SimulationConfig) -> range:
    return range(-(-config.users // config.chunk_users))


def chunk_tables(market: Marketplace, number: int) -> Tables:
    """Simulate a chunk of users and lay it out as it is written."""
    chunk = simulate_chunk(market, number)
    counts = np.zeros((2, 2), dtype=np.int64)
    np.add.at(counts, (chunk.searched.astype(int), (chunk.clicks >= 0).astype(int)), 1)
    truth = _truth_table(chunk, _truth_schema(market.config))
    return Tables(_log_table(chunk), truth, counts, int(chunk.scroll.sum()))


def simulate_chunk(market: Marketplace, number: int) -> Chunk:
    """Simulate the users of one chunk.

    Each chunk has its own random stream, spawned from the seed by its number: it depends neither
    on the chunks before it nor on how many follow.
    """
    config = market.config
    policy = (
        named_policy(config.policy, market.catalogue)
        if market.life is None
        else FrontPagePolicy(market.life)
    )
    rng = stream(config.seed, 1, number)
    first = number * config.chunk_users
    count = min(config.chunk_users, config.users - first)
    users = market.new_users(count, rng)
    steps = rng.integers(config.min_interactions, config.max_interactions + 1, size=count)
    times = _times(count, config, rng)  # [B, T]
    parts = []
    for step in range(config.max_interactions):
        who = np.flatnonzero(steps > step)
        hours = (times[who, step] - START.astype(np.int64)) / HOUR
        seen = market.interact(users, policy, rng, who, hours)
        parts.append(
            Chunk(
                user=who + first,
                time=times[who, step],
                slates=seen.slates,
                scroll=seen.scroll,
                clicks=seen.clicks,
                searched=seen.searched,
                state=seen.state,
                probability=seen.choice.items.astype(np.float32),
                no_click=seen.choice.no_click.astype(np.float32),
                propensity=users.propensity[who],
            )
        )
    order = np.argsort(np.concatenate([part.time for part in parts]), kind="stable")
    return Chunk(*(np.concatenate(column)[order] for column in zip(*parts, strict=True)))


def _times(count: int, config: SimulationConfig, rng: np.random.Generator) -> Ints:
    """Times of the interactions, strictly increasing along each row, in microseconds: [B, T]."""
    if config.life.hours:
        steps = config.max_interactions
        visits = rng.integers(config.days * 24 * HOUR - steps, size=(count, steps))
        return np.asarray(START.astype(np.int64) + np.sort(visits, axis=1) + np.arange(steps))
    arrival = rng.integers(config.days * 24 * HOUR, size=(count, 1))
    gaps = rng.exponential(HOURS_BETWEEN * HOUR, size=(count, config.max_interactions))
    # A second at least, so that no rounding can make two interactions of a user simultaneous.
    waited = np.cumsum(1_000_000 + gaps.astype(np.int64), axis=1)
    return np.asarray(START.astype(np.int64) + arrival + waited)


_ITEMS: Final = pa.list_(pa.int64())
LOG_SCHEMA: Final = pa.schema(
    {
        Columns.USER: pa.int64(),
        Columns.TIME: pa.timestamp("us"),
        Columns.SLATE: _ITEMS,
        Columns.CLICK: pa.int64(),
        Columns.SOURCE: pa.string(),
    }
)


def _truth_schema(config: SimulationConfig) -> pa.Schema:
    columns = {
        "state": pa.list_(pa.float32(), config.catalogue.dimensions),
        "choice_probability": pa.list_(pa.float32()),
        "no_click_probability": pa.float32(),
    }
    if config.effects.propensity_sd:
        columns["propensity"] = pa.float32()
    return pa.schema(columns)


def _writer(file: Path, schema: pa.Schema) -> pq.ParquetWriter:
    # Dictionaries pay for the source and for slates of popular items; random floats do not pack.
    packed = [f"{Columns.SLATE}.list.element", Columns.CLICK, Columns.SOURCE]
    return pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=packed)


def _log_table(chunk: Chunk) -> pa.Table:
    source = pa.DictionaryArray.from_arrays(
        chunk.searched.astype(np.int8), ["recommendation", "search"]
    )
    columns = [
        pa.array(chunk.user),
        pa.array(chunk.time).cast(pa.timestamp("us")),
        _seen(chunk.slates, chunk.scroll),
        pa.array(chunk.clicks, mask=chunk.clicks < 0),
        source.cast(pa.string()),
    ]
    return pa.table(columns, schema=LOG_SCHEMA)


def _truth_table(chunk: Chunk, schema: pa.Schema) -> pa.Table:
    columns = [
        _vectors(chunk.state),
        _seen(chunk.probability, chunk.scroll),
        pa.array(chunk.no_click),
        pa.array(chunk.propensity),
    ]
    return pa.table(columns[: len(schema)], schema=schema)


def _seen(values: Ints | Floats, scroll: Ints) -> pa.ListArray:
    """Return the first `scroll` [N] entries of each row of `values` [N, S], as a list array."""
    ends = np.concatenate([[0], np.cumsum(scroll)]).astype(np.int32)
    flat = values[np.arange(values.shape[1]) < scroll[:, None]]
    return pa.ListArray.from_arrays(ends, flat)


def _vectors(values: Floats) -> pa.FixedSizeListArray:
    """Return `values` [N, D] as an array of N lists of the fixed size D."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _write_items(market: Marketplace, folder: Path) -> None:
    """Write the catalogue, and the truth about items and groups."""
    catalogue, space, config = market.catalogue, market.space, market.config
    names = pa.array([f"group-{group:03d}" for group in range(catalogue.groups)])
    item = pa.array(np.arange(catalogue.items))
    groups = _group_names(market.listed_groups, names)
    columns = {Columns.ITEM: item, Columns.GROUP: groups}
    columns |= item_columns(market, int(START.astype(np.int64)))
    pq.write_table(pa.table(columns), folder / "items.parquet")
    columns = {Columns.ITEM: item, "vector": _vectors(space.vectors)}
    if config.catalogue.mislabelled:
        columns[Columns.GROUP] = _group_names(catalogue.group, names)
    if market.life is None:
        columns["exposure"] = pa.array(catalogue.exposure)
    if market.quality is not None:
        columns["quality"] = pa.array(market.quality)
    if market.life is not None and market.config.life.burst:
        columns["burst"] = pa.array(market.life.bursts)
    pq.write_table(pa.table(columns), folder / "truth" / "items.parquet")
    columns = {
        Columns.GROUP: names,
        "mean": _vectors(space.means),
        "spread": pa.array(space.spread),
        "companion": names.take(pa.array(space.companion)),
    }
    pq.write_table(pa.table(columns), folder / "truth" / "groups.parquet")


def _group_names(groups: Ints, names: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(groups.astype(np.int32), names).cast(pa.string())


def item_columns(market: Marketplace, start: int) -> dict[str, pa.Array]:
    """Return the other columns of the items table: publication time and features.

    The simulation starts at `start`, in microseconds since 1970.
    """
    columns = {}
    if market.life is not None:
        published = start + (market.life.published * HOUR).astype(np.int64)
        columns["published"] = pa.array(published).cast(pa.timestamp("us"))
    config = market.config
    rng = stream(config.seed, 4)
    numbers = item_features(config.features, market.catalogue, market.space, market.quality, rng)
    for number, values in enumerate(numbers.T, start=1):
        columns[f"feature_{number}"] = pa.array(values)
    return columns
