"""Interactions with ids, encoded as interactions with numbers."""

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slatewise.data.keys import Keys, combine, id_keys, sequence_keys
from slatewise.data.ragged import Int64Array, offsets_of
from slatewise.data.vocabulary import Vocabulary
from slatewise.errors import SlatewiseError

_MOST_SOURCES = 255


class Encoder:
    """Numbers items and sources as they come; `finish` puts the numbers into their final order."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._sources: dict[str, int] = {}

    def encode(self, batch: pl.DataFrame, users: Keys) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Replace ids by numbers and clicks by positions, and add the key of each row.

        In: `file`, `row`, `user`, `time`, `slate`, `click` (id), `source`; users [N] are keys.
        Out: `file`, `row`, `user`, `time`, `source`, `click` (position), `key`, `items`; and the
        first rows (`file`, `row`, `slate`) of items seen here for the first time.
        """
        wide = batch.select("file", "row", "click", "slate").explode("slate", empty_as_null=False)
        codes, fresh = self._vocabulary.encode(wide["slate"])
        offsets = offsets_of(batch["slate"].list.len().to_numpy())
        clicks = _click_positions(wide["slate"] == wide["click"], offsets)
        key = combine(
            users,
            batch["time"].to_numpy().view(np.uint64),
            sequence_keys(self._vocabulary.keys[codes], offsets),
            clicks.astype(np.uint64),
            id_keys(batch["source"]),
        )
        own = [name for name in ("file", "row", "user", "time", "part") if name in batch.columns]
        numbered = batch.select(own).with_columns(
            source=self._encode_sources(batch["source"]),
            click=clicks,
            key=key,
            items=pl.Series(pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(codes))),
        )
        first_seen = wide.filter(fresh).unique("slate", keep="first", maintain_order=True)
        return numbered, first_seen.select("file", "row", "slate")

    def _encode_sources(self, names: pl.Series) -> pl.Series:
        for name in names.unique().sort():
            self._sources.setdefault(name, len(self._sources))
        if len(self._sources) > _MOST_SOURCES:
            raise SlatewiseError(
                f"the log has more than {_MOST_SOURCES} sources.",
                "A source is a kind of slate, such as search: map another column to it.",
            )
        return names.replace_strict(self._sources, return_dtype=pl.UInt8)

    def finish(self) -> "FinalVocabulary":
        """Return the final vocabularies; call it when everything has been encoded."""
        items, codes = self._vocabulary.finish()
        names = sorted(self._sources)
        sources = np.zeros(max(1, len(names)), dtype=np.uint8)
        for number, name in enumerate(names):
            sources[self._sources[name]] = number
        return FinalVocabulary(items, names, codes, sources)


class FinalVocabulary:
    """The final numbers of items and sources, which do not depend on the order of the log."""

    def __init__(
        self,
        items: pl.DataFrame,
        source_names: list[str],
        item_codes: npt.NDArray[np.int32],
        source_codes: npt.NDArray[np.uint8],
    ) -> None:
        self.items = items
        self.source_names = source_names
        self._item_codes = item_codes
        self._source_codes = source_codes

    def renumber(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Replace the provisional numbers in `source` and `items` by the final ones."""
        offsets = offsets_of(frame["items"].list.len().to_numpy())
        codes = self._item_codes[frame["items"].explode(empty_as_null=False).to_numpy()]
        return frame.with_columns(
            source=self._source_codes[frame["source"].to_numpy()],
            items=pl.Series(pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(codes))),
        )


def _click_positions(is_click: pl.Series, offsets: Int64Array) -> npt.NDArray[np.int32]:
    """Return the position of the click in each slate, -1 for none: is_click [F] -> [N]."""
    clicks = np.full(len(offsets) - 1, -1, dtype=np.int32)
    hits = np.flatnonzero(is_click.fill_null(value=False).to_numpy())
    rows = np.searchsorted(offsets, hits, side="right") - 1
    clicks[rows] = hits - offsets[rows]
    return clicks
