"""The dataset that training reads: ragged, memory-mapped, opened in milliseconds.

Opening needs only numpy; names are read (with polars) on first use.
"""

import copy
import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from slatewise.data.arrays import digest_of, map_array
from slatewise.data.ragged import Int64Array
from slatewise.errors import InputError, SlatewiseError
from slatewise.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    import torch

    from slatewise.data.interactions import Interactions
    from slatewise.data.split import Split, SplitConfig

FORMAT: Final = "slatewise-dataset"
VERSION: Final = 1

ARRAYS: Final = {
    "user_offsets": "int64",
    "user_keys": "uint64",
    "times": "int64",
    "sources": "uint8",
    "clicks": "int32",
    "slate_offsets": "int64",
    "slate_items": "int32",
    "train_end": "int32",
    "valid_end": "int32",
    "item_groups": "int32",
}
"""Every array of a dataset and its type."""

CONTENTS: Final = (
    "dataset.json",
    *(f"{name}.npy" for name in ARRAYS),
    "items.parquet",
    "groups.parquet",
    "users.parquet",
)
"""Every file of a dataset."""


class SlateDataset:
    """Users' interactions in time order, with the split and the vocabularies.

    Interaction n of user u lies at `user_offsets[u] + n` in the arrays over interactions; its
    slate is `slate_items[slate_offsets[i] : slate_offsets[i + 1]]`, in shown order.
    """

    user_offsets: Int64Array
    """[U + 1]"""
    user_keys: npt.NDArray[np.uint64]
    """[U] stable keys of the user ids, by which the split is drawn"""
    times: Int64Array
    """[N] microseconds since 1970, or the log's own integers"""
    sources: npt.NDArray[np.uint8]
    """[N] into `source_names`"""
    clicks: npt.NDArray[np.int32]
    """[N] position of the click in its slate, -1 for none"""
    slate_offsets: Int64Array
    """[N + 1]"""
    slate_items: npt.NDArray[np.int32]
    """[F] items seen, in shown order, slate after slate"""
    train_end: npt.NDArray[np.int32]
    """[U] interactions of each user that are for training"""
    valid_end: npt.NDArray[np.int32]
    """[U] where validation ends and test begins"""
    item_groups: npt.NDArray[np.int32]
    """[I] into `group_names`"""

    def __init__(self, path: Path, meta: dict[str, Any]) -> None:
        self.path = path
        self.meta = meta
        for name, dtype in ARRAYS.items():
            setattr(
                self, name, map_array(path / f"{name}.npy", dtype, meta["arrays"][name]["length"])
            )

    @classmethod
    def open(cls, path: str | Path) -> "SlateDataset":
        """Open a dataset that `slatewise prepare` wrote."""
        path = Path(path)
        if path.is_file():
            raise InputError("this is a file.", "A dataset is a directory: give that.", file=path)
        file = path / "dataset.json"
        try:
            meta = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(
                "this is not a dataset: it has no dataset.json.",
                "Make one with: slatewise prepare LOG ITEMS OUT",
                file=path,
            ) from error
        except (OSError, ValueError) as error:
            raise InputError("the description is damaged.", "Prepare again.", file=file) from error
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise InputError(
                "this does not describe a slatewise dataset.", "Check the path.", file=file
            )
        if meta.get("version") != VERSION:
            raise InputError(
                f"the dataset has format version {meta.get('version')}, this release reads "
                f"{VERSION}.",
                "Prepare it again with this release.",
                file=file,
            )
        if not _is_complete(meta):
            raise InputError("the description is damaged.", "Prepare again.", file=file)
        return cls(path, meta)

    def __repr__(self) -> str:
        """Show the path and the size."""
        return (
            f"SlateDataset({str(self.path)!r}: {counted(self.num_users, 'user')}, "
            f"{counted(self.num_interactions, 'interaction')}, {counted(self.num_items, 'item')})"
        )

    @property
    def num_users(self) -> int:
        """U, the number of users."""
        return len(self.user_keys)

    @property
    def num_interactions(self) -> int:
        """N, the number of interactions of all users."""
        return len(self.times)

    @property
    def num_items(self) -> int:
        """I, the number of items, shown or not."""
        return len(self.item_groups)

    @property
    def num_groups(self) -> int:
        """G, the number of item groups."""
        return int(self.meta["counts"]["groups"])

    @property
    def source_names(self) -> list[str]:
        """Where slates come from; `sources` points into this list."""
        return list(self.meta["sources"])

    @property
    def content_hash(self) -> str:
        """A digest of everything that training reads."""
        return str(self.meta["content_hash"])

    @cached_property
    def group_names(self) -> list[str]:
        """The groups; `item_groups` points into this list."""
        return self._table("groups.parquet")["group"].to_list()

    @cached_property
    def items(self) -> "pl.DataFrame":
        """The items table by item number: `item_id`, `group` and the other columns."""
        return self._table("items.parquet")

    @property
    def item_ids(self) -> "pl.Series":
        """[I] item ids as in the items table."""
        return self.items["item_id"]

    @cached_property
    def user_ids(self) -> "pl.Series":
        """[U] user ids as in the log."""
        return self._table("users.parquet")["user_id"]

    def _table(self, name: str) -> "pl.DataFrame":
        import polars as pl  # noqa: PLC0415 (only names need it; training does not)

        try:
            return pl.read_parquet(self.path / name, glob=False)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(
                "the table is missing or damaged.", "Prepare again.", file=self.path / name
            ) from error

    @cached_property
    def further_clicks(self) -> npt.NDArray[np.int32] | None:
        """[N] clicks made before on the same slate; None where no slate has several."""
        from slatewise.data.several_clicks import further_clicks  # noqa: PLC0415 (few need it)

        return further_clicks(
            self.user_offsets,
            self.times,
            self.sources,
            self.clicks,
            self.slate_offsets,
            self.slate_items,
        )

    def interactions(self, device: "torch.device | str" = "cpu") -> "Interactions":
        """Return everything as tensors: without a copy on the CPU, in one transfer elsewhere."""
        from slatewise.data.interactions import Interactions  # noqa: PLC0415 (torch is slow to load)

        return Interactions.of_dataset(self, device)

    def split(self, config: "SplitConfig") -> "Split":
        """Draw another split of the same data, without writing it."""
        from slatewise.data.split import split  # noqa: PLC0415 (needs pydantic)

        return split(config, self.user_keys, self.times, self.user_offsets, self.further_clicks)

    def with_ends(
        self, train_end: npt.NDArray[np.integer[Any]], valid_end: npt.NDArray[np.integer[Any]]
    ) -> "SlateDataset":
        """Return a view of the same arrays under another split [U]; nothing is written."""
        view = copy.copy(self)
        view.train_end, view.valid_end = train_end.astype(np.int32), valid_end.astype(np.int32)
        return view

    def with_items(self, columns: "Sequence[pl.Series]") -> "SlateDataset":
        """Return a view with other columns of items [I], ids and groups apart."""
        view = copy.copy(self)
        view.items = self.items.select("item_id", "group").with_columns(columns)
        return view

    def verify(self) -> None:
        """Read every array and compare it with the digest taken when it was written."""
        for name in ARRAYS:
            if digest_of(getattr(self, name)) != self.meta["arrays"][name]["digest"]:
                raise InputError(
                    "the content has changed since it was written.",
                    "Prepare the dataset again.",
                    file=self.path / f"{name}.npy",
                )
        names = self.names_digest()
        if content_hash(self.meta["arrays"], names) != self.content_hash:
            raise SlatewiseError(
                f"{self.path}: names or description have changed since they were written.",
                "Prepare the dataset again.",
            )

    def names_digest(self) -> str:
        """Return a digest of the names of items, groups and sources."""
        return names_digest(self.items, self.group_names, self.source_names)


def _is_complete(meta: dict[str, Any]) -> bool:
    """Return whether a description has every key that reading needs."""
    arrays = meta.get("arrays")
    return (
        isinstance(arrays, dict)
        and set(arrays) == set(ARRAYS)
        and all(isinstance(a, dict) and {"length", "digest"} <= set(a) for a in arrays.values())
        and {"content_hash", "counts", "sources", "clock_times", "report"} <= set(meta)
    )


def names_digest(items: "pl.DataFrame", groups: list[str], sources: list[str]) -> str:
    """Return a digest of the names that the numbers in the arrays refer to."""
    from slatewise.data.keys import id_keys  # noqa: PLC0415 (needs polars)

    digest = hashlib.blake2b(id_keys(items["item_id"]).data, digest_size=16)
    digest.update(json.dumps([groups, sources]).encode())
    return digest.hexdigest()


def content_hash(arrays: dict[str, dict[str, Any]], names: str) -> str:
    """Combine the digests of all arrays and of the names into one."""
    text = json.dumps({name: arrays[name]["digest"] for name in ARRAYS} | {"names": names})
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
