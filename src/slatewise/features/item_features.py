"""Columns of an items table, encoded as numbers that a prior can be linear in.

| kind | becomes |
|---|---|
| `number` | (value − mean) / sd |
| `category` | a 0/1 column for each of the most frequent values, and one for all others |
| `tags` | a 0/1 column for each of the most frequent tags |
| `embedding` | vector − mean, divided by one number so that its entries have mean square 1 |

A missing value becomes 0, the mean, with a 0/1 column `… is missing` if any was missing when the
encoder was fitted. The encoder is JSON: an item that comes later is encoded the same way.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field

from slatewise.config import Config
from slatewise.errors import InputError
from slatewise.features.item_columns import Kind, typed_columns

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

MOST_CATEGORIES: Final = 100
"""Values of a category, and tags, with a column of their own, unless another number is given."""

OTHER: Final = "another"
"""Stands for a rare value of a category that is known by its number alone."""

_ITEMS: Final = Path("items")


class _Column(Config):
    name: str
    """Of the column in the items table."""
    missing: bool
    """Whether a column marks missing values."""


class NumberColumn(_Column):
    """A number, standardised."""

    kind: Literal["number"] = "number"
    mean: float
    sd: Annotated[float, Field(gt=0)]

    @classmethod
    def fit(cls, values: pl.Series) -> "NumberColumn":
        """Take mean and standard deviation of what is there."""
        known = values.drop_nulls().to_numpy()
        mean, sd = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)
        # A constant is left at 0; its rounding error must not be blown up to 1.
        sd = sd if sd > 1e-9 * abs(mean) else 1.0
        return cls(name=values.name, missing=values.has_nulls(), mean=mean, sd=sd)

    @property
    def names(self) -> list[str]:
        """What the columns made of it are called."""
        return [self.name]

    def encode(self, values: pl.Series, file: Path) -> Doubles:
        """Return [I, 1]."""
        scaled = (values.fill_null(self.mean).to_numpy() - self.mean) / self.sd
        return scaled.astype(np.float64)[:, None]

    def decode(self, block: Floats) -> pl.Series:
        """Return the values that encode as [I, 1]."""
        return pl.Series(self.name, block[:, 0].astype(np.float64) * self.sd + self.mean)


class CategoryColumn(_Column):
    """One of many names."""

    kind: Literal["category"] = "category"
    values: tuple[str, ...]
    """The most frequent, then by name."""
    other: bool
    """Whether a column stands for all other values; without one, a new value is all zeros."""

    @classmethod
    def fit(cls, values: pl.Series, most: int) -> "CategoryColumn":
        """Find the most frequent values."""
        counts = values.drop_nulls().alias("value").to_frame().group_by("value").len()
        ordered = counts.sort("len", "value", descending=[True, False])["value"].to_list()
        return cls(
            name=values.name,
            missing=values.has_nulls(),
            values=tuple(ordered[:most]),
            other=len(ordered) > most,
        )

    @property
    def names(self) -> list[str]:
        """What the columns made of it are called."""
        shown = [f"{self.name} = {value}" for value in self.values]
        return shown + [f"{self.name} is another"] * self.other

    def encode(self, values: pl.Series, file: Path) -> Doubles:
        """Return [I, number of values and 1 for others]."""
        numbers = {value: number for number, value in enumerate(self.values)}
        codes = np.array([numbers.get(value, len(numbers)) for value in values], dtype=np.int64)
        one_hot = codes[:, None] == np.arange(len(self.names))
        out: Doubles = one_hot * values.is_not_null().to_numpy()[:, None].astype(np.float64)
        return out

    def decode(self, block: Floats) -> pl.Series:
        """Return values that encode as [I, values]: any rare one is OTHER."""
        names = [*self.values, *[OTHER] * self.other, None]
        marked = np.append(block > 0.5, np.ones((len(block), 1), bool), axis=1)
        return pl.Series(self.name, [names[at] for at in marked.argmax(1).tolist()], pl.String)


class TagsColumn(_Column):
    """Any number of names."""

    kind: Literal["tags"] = "tags"
    values: tuple[str, ...]
    """The most frequent, then by name."""

    @classmethod
    def fit(cls, values: pl.Series, most: int) -> "TagsColumn":
        """Find the tags that most items have."""
        tags = values.list.unique().explode(empty_as_null=False).drop_nulls()
        counts = tags.alias("value").to_frame().group_by("value").len()
        ordered = counts.sort("len", "value", descending=[True, False])["value"].to_list()
        return cls(name=values.name, missing=values.has_nulls(), values=tuple(ordered[:most]))

    @property
    def names(self) -> list[str]:
        """What the columns made of it are called."""
        return [f"{self.name} has {value}" for value in self.values]

    def encode(self, values: pl.Series, file: Path) -> Doubles:
        """Return [I, number of tags]."""
        columns = {value: number for number, value in enumerate(self.values)}
        out = np.zeros((len(values), len(columns)))
        for item, tags in enumerate(values):
            for tag in () if tags is None else tags:
                if tag in columns:
                    out[item, columns[tag]] = 1.0
        return out

    def decode(self, block: Floats) -> pl.Series:
        """Return the tags that encode as [I, number of tags]: rare ones are lost."""
        tags = [[self.values[at] for at in np.flatnonzero(row > 0.5)] for row in block]
        return pl.Series(self.name, tags, pl.List(pl.String))


class EmbeddingColumn(_Column):
    """A vector, of text, of an image or of anything."""

    kind: Literal["embedding"] = "embedding"
    mean: tuple[float, ...]
    scale: Annotated[float, Field(gt=0)]
    """One for the whole vector: its directions keep their proportions."""

    @classmethod
    def fit(cls, values: pl.Series) -> "EmbeddingColumn":
        """Take the mean of what is there and the mean square around it."""
        known = values.drop_nulls()
        size = int(known.list.len()[0]) if len(known) else 0
        vectors = np.array(known.to_list(), dtype=np.float64).reshape(len(known), size)
        mean = vectors.mean(axis=0) if len(vectors) else np.zeros(0)
        scale = float(np.sqrt(((vectors - mean) ** 2).mean())) if vectors.size else 0.0
        return cls(
            name=values.name,
            missing=values.has_nulls(),
            mean=tuple(mean.tolist()),
            scale=scale if scale > 1e-9 * float(np.abs(mean).max(initial=0.0)) else 1.0,
        )

    @property
    def names(self) -> list[str]:
        """What the columns made of it are called."""
        return [f"{self.name}[{index}]" for index in range(len(self.mean))]

    def encode(self, values: pl.Series, file: Path) -> Doubles:
        """Return [I, length of the vector]."""
        known = values.drop_nulls()
        if len(known) and known.list.len()[0] != len(self.mean):
            raise InputError(
                f"vectors of {known.list.len()[0]} numbers, not of {len(self.mean)} as before.",
                "Use the same embedding as when the encoder was fitted.",
                file=file,
                column=self.name,
            )
        out = np.zeros((len(values), len(self.mean)))
        vectors = np.array(known.to_list(), dtype=np.float64).reshape(len(known), len(self.mean))
        out[values.is_not_null().to_numpy()] = (vectors - np.array(self.mean)) / self.scale
        return out

    def decode(self, block: Floats) -> pl.Series:
        """Return the vectors that encode as [I, length of the vector]."""
        vectors = block.astype(np.float64) * self.scale + np.array(self.mean)
        return pl.Series(self.name, vectors, pl.Array(pl.Float64, len(self.mean))).arr.to_list()


Column = NumberColumn | CategoryColumn | TagsColumn | EmbeddingColumn


class ItemEncoder(Config):
    """Turns columns of items into a matrix, always the same way."""

    columns: tuple[Annotated[Column, Field(discriminator="kind")], ...]

    @classmethod
    def fit(
        cls,
        items: pl.DataFrame,
        kinds: Mapping[str, Kind],
        *,
        most_categories: int = MOST_CATEGORIES,
        file: Path = _ITEMS,
    ) -> "ItemEncoder":
        """Learn how to encode the columns named in `kinds`; errors name `file`, column and row."""
        table = typed_columns(items, kinds, file)
        return cls(columns=tuple(_fit(table[n], kinds[n], most_categories) for n in kinds))

    @property
    def names(self) -> list[str]:
        """[Q] what the columns of the matrix are."""
        return [name for column in self.columns for name in _names(column)]

    def encode(self, items: pl.DataFrame, *, file: Path = _ITEMS) -> Floats:
        """Return the features of I items, those of the fit or new ones: [I, Q] float32."""
        table = typed_columns(items, {c.name: c.kind for c in self.columns}, file)
        blocks = [np.empty((items.height, 0))]
        for column in self.columns:
            blocks.append(column.encode(table[column.name], file))
            if column.missing:
                blocks.append(table[column.name].is_null().to_numpy()[:, None].astype(np.float64))
        return np.concatenate(blocks, axis=1).astype(np.float32)

    def decode(self, features: Floats) -> pl.DataFrame:
        """Return the columns of items [I, Q], as far as the features tell them."""
        found, start = [], 0
        for column in self.columns:
            end = start + len(column.names)
            values = column.decode(features[:, start:end])
            if column.missing:
                missing = pl.Series(features[:, end] > 0.5)
                values = pl.select(pl.when(~missing).then(values).alias(column.name)).to_series()
            found.append(values)
            start = end + column.missing
        return pl.DataFrame(found)


def _fit(values: pl.Series, kind: Kind, most: int) -> Column:
    if kind == "category":
        return CategoryColumn.fit(values, most)
    if kind == "tags":
        return TagsColumn.fit(values, most)
    return NumberColumn.fit(values) if kind == "number" else EmbeddingColumn.fit(values)


def _names(column: Column) -> list[str]:
    return column.names + [f"{column.name} is missing"] * column.missing
