"""The writer of a dataset, which takes users one bucket after another."""

import json
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow.parquet as pq

from slatewise.data.arrays import ArrayWriter, map_array, write_array
from slatewise.data.columns import Columns
from slatewise.data.dataset import ARRAYS, FORMAT, VERSION, content_hash, names_digest
from slatewise.data.keys import id_keys
from slatewise.data.own_split import ends_of
from slatewise.data.several_clicks import further_clicks
from slatewise.data.split import Split, SplitConfig, between_slates, split, with_prefix
from slatewise.version import __version__

_STREAMED = (
    "user_offsets",
    "user_keys",
    "times",
    "sources",
    "clicks",
    "slate_offsets",
    "slate_items",
)
_ROWS = ("sources", "clicks", "slate_offsets", "slate_items")
"""What tells further clicks on a slate from others, beside users and times."""


class DatasetWriter:
    """Writes the files of a dataset into a directory that the caller renames when complete."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = ExitStack()
        self._arrays = {
            name: self._files.enter_context(ArrayWriter(directory / f"{name}.npy", ARRAYS[name]))
            for name in _STREAMED
        }
        self._users: pq.ParquetWriter | None = None
        self._clicks = 0
        self._brought: list[Split] = []
        for name in ("user_offsets", "slate_offsets"):
            self._arrays[name].append(np.zeros(1, dtype=np.int64))

    def append(self, frame: pl.DataFrame) -> None:
        """Add users with all their interactions, sorted by user and time.

        Columns: `user`, `time`, `source` (number), `click` (position), `items` (list of numbers),
        and `part` where the split is brought.
        """
        users = frame.group_by("user", maintain_order=True).len()
        arrays = self._arrays
        rows_before, items_before = arrays["times"].length, arrays["slate_items"].length
        lengths = frame["items"].list.len().to_numpy()
        arrays["user_offsets"].append(
            rows_before + np.cumsum(users["len"].to_numpy(), dtype=np.int64)
        )
        arrays["user_keys"].append(id_keys(users["user"]))
        arrays["times"].append(frame["time"].to_numpy())
        arrays["sources"].append(frame["source"].to_numpy())
        clicks = frame["click"].to_numpy()
        arrays["clicks"].append(clicks)
        arrays["slate_offsets"].append(items_before + np.cumsum(lengths, dtype=np.int64))
        arrays["slate_items"].append(frame["items"].explode(empty_as_null=False).to_numpy())
        self._clicks += int((clicks >= 0).sum())
        if "part" in frame.columns:
            self._brought.append(ends_of(frame))
        self._append_users(users["user"])

    def _append_users(self, users: pl.Series) -> None:
        table = users.alias(Columns.USER).to_frame().to_arrow()
        if self._users is None:
            self._users = self._files.enter_context(
                pq.ParquetWriter(
                    self._directory / "users.parquet", table.schema, compression="zstd"
                )
            )
        self._users.write_table(table)

    @property
    def counts(self) -> dict[str, int]:
        """What has been written so far."""
        return {
            "users": self._arrays["user_keys"].length,
            "interactions": self._arrays["times"].length,
            "clicks": self._clicks,
            "views": self._arrays["slate_items"].length,
        }

    def finish(
        self, items: pl.DataFrame, sources: list[str], division: SplitConfig, extra: dict[str, Any]
    ) -> None:
        """Write the vocabularies, the split and the description."""
        digests = {name: array.close() for name, array in self._arrays.items()}
        lengths = {name: array.length for name, array in self._arrays.items()}
        self._files.close()
        groups = items[Columns.GROUP].unique().sort()
        arrays = {name: self._map(name, lengths[name]) for name in _STREAMED}
        rows = [arrays[name] for name in _ROWS]
        further = further_clicks(arrays["user_offsets"], arrays["times"], *rows)
        whenever = np.broadcast_to(np.int64(0), len(arrays["times"]))
        again = further_clicks(arrays["user_offsets"], whenever, *rows)
        users = np.diff(arrays["user_offsets"])
        division = with_prefix(division, arrays["user_keys"], users)
        cuts = self._cuts(division, arrays, further)
        rest: dict[str, npt.NDArray[np.int32]] = {
            "train_end": cuts.train_end,
            "valid_end": cuts.valid_end,
            "item_groups": groups.search_sorted(items[Columns.GROUP]).to_numpy().astype(np.int32),
        }
        for name, values in rest.items():
            digests[name] = write_array(self._directory / f"{name}.npy", values)
            lengths[name] = len(values)
        items.write_parquet(self._directory / "items.parquet")
        groups.to_frame().write_parquet(self._directory / "groups.parquet")
        described = {
            name: {"dtype": dtype, "length": lengths[name], "digest": digests[name]}
            for name, dtype in ARRAYS.items()
        }
        description = {
            "format": FORMAT,
            "version": VERSION,
            "slatewise": __version__,
            "content_hash": content_hash(described, names_digest(items, groups.to_list(), sources)),
            "counts": self.counts
            | {"items": items.height, "groups": len(groups)}
            | _several_counts(further, again),
            "sources": sources,
            "split": division.model_dump(),
            "arrays": described,
        }
        text = json.dumps(description | extra, indent=2)
        (self._directory / "dataset.json").write_text(text + "\n", encoding="utf-8")

    def _cuts(
        self,
        division: SplitConfig,
        arrays: dict[str, npt.NDArray[Any]],
        further: npt.NDArray[np.int32] | None,
    ) -> Split:
        """Return the split that interactions brought, or draw one."""
        offsets = arrays["user_offsets"]
        if not self._brought:
            return split(division, arrays["user_keys"], arrays["times"], offsets, further)
        train, valid = zip(*((one.train_end, one.valid_end) for one in self._brought), strict=True)
        return between_slates(Split(np.concatenate(train), np.concatenate(valid)), offsets, further)

    def _map(self, name: str, length: int) -> npt.NDArray[Any]:
        return map_array(self._directory / f"{name}.npy", ARRAYS[name], length)

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close what is open, whatever happened."""
        self._files.close()


def _several_counts(
    further: npt.NDArray[np.int32] | None, again: npt.NDArray[np.int32] | None
) -> dict[str, int]:
    """Count slates with several clicks and the clicks behind their first, where there are any.

    `again` [N] counts those that would be further clicks if times did not matter.
    """
    found = {}
    if further is not None:
        found["slates_with_several_clicks"] = int((further == 1).sum())
        found["further_clicks"] = int((further > 0).sum())
    if again is not None and (later := int((again > 0).sum()) - found.get("further_clicks", 0)):
        found["clicks_on_slates_shown_again"] = later
    return found
