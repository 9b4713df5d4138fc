"""Rows partitioned on disk by key, so that all rows of a key are read back together."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from slatewise.data.keys import Keys

_ROWS_PER_BUCKET = 500_000
_ITEMS_PER_BUCKET = 6_000_000
_MOST_BUCKETS = 512


class Buckets:
    """A partition of a stream of frames by key, one Arrow file per part.

    All rows with the same key are in the same bucket, in the order in which they were added.
    Memory is that of one bucket: about half a million rows and six million items in their
    lists, unless one key has more.
    """

    def __init__(self, directory: Path, expected_rows: int, expected_items: int = 0) -> None:
        directory.mkdir(parents=True)
        needed = max(expected_rows // _ROWS_PER_BUCKET, expected_items // _ITEMS_PER_BUCKET)
        self.count = min(_MOST_BUCKETS, 1 + needed)
        self._files = [directory / f"{bucket:03}.arrow" for bucket in range(self.count)]
        self._writers: list[pa.ipc.RecordBatchFileWriter | None] = [None] * self.count

    def add(self, frame: pl.DataFrame, keys: Keys) -> None:
        """Put each row into the bucket of its key."""
        bucket = (keys % np.uint64(self.count)).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=self.count))
        table = frame[order].to_arrow(compat_level=pl.CompatLevel.oldest())
        start = 0
        for number, end in enumerate(ends):
            if end > start:
                self._writer(number, table.schema).write_table(table.slice(start, end - start))
            start = end

    def _writer(self, bucket: int, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
        writer = self._writers[bucket]
        if writer is None:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            writer = pa.ipc.new_file(self._files[bucket], schema, options=options)
            self._writers[bucket] = writer
        return writer

    def close(self) -> list[Path]:
        """Close the buckets, and return the files of those that hold rows."""
        for writer in self._writers:
            if writer is not None:
                writer.close()
        filled = zip(self._files, self._writers, strict=True)
        return [file for file, writer in filled if writer is not None]

    def drain(self) -> Iterator[pl.DataFrame]:
        """Close the buckets and yield each that holds rows, removing its file afterwards."""
        for file in self.close():
            yield read_bucket(file)
            file.unlink()


def read_bucket(file: Path) -> pl.DataFrame:
    """Read the rows of a bucket."""
    # As a stream: a path would be taken for a pattern.
    with file.open("rb") as stream:
        return pl.read_ipc(stream)
