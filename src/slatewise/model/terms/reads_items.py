"""What both networks have in common: what they read of items, and where they keep it."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from pydantic import Field, PrivateAttr
from torch import Tensor

from slatewise.config import Config
from slatewise.data.ragged import Int64Array
from slatewise.features.item_dates import MISSING
from slatewise.features.item_features import ItemEncoder
from slatewise.model.network.known_items import (
    facts_of,
    on_other_items,
    read_otherwise,
    refuse_other_kinds,
    with_later,
)
from slatewise.model.terms.known import NO_FACTS, NOBODY, Facts


class ReadsItems(Config):
    """A term with tensors, among them what it knows of each item."""

    groups: int
    """Groups of items that it knows."""
    units: int
    """Of each hidden layer of a network."""
    encoder: ItemEncoder | None = None
    """How the columns of the items table became numbers."""
    skipped: dict[str, str] = Field(default_factory=dict)
    """Columns of that table that it does not read, and why."""
    dates: tuple[str, ...] = ()
    """Columns of dates of that table."""
    _tensors: dict[str, Tensor] = PrivateAttr(default_factory=dict)
    _later: dict[str, Tensor] = PrivateAttr(default_factory=dict)

    @property
    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """The weights of the network, the scales of its inputs, and what it knows of each item."""
        return {name: tensor.numpy() for name, tensor in self._tensors.items()}

    @classmethod
    def restore(
        cls, values: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str
    ) -> Self:
        """Take over a saved network."""
        term = cls.build(values, where)
        term._tensors.update({name: torch.from_numpy(array) for name, array in arrays.items()})
        return term

    def on_items(
        self,
        known: Int64Array,
        groups: npt.NDArray[np.integer],
        described: Int64Array = NOBODY,
        facts: Facts = NO_FACTS,
    ) -> Self:
        """Return the same network with what it knows of other items."""
        term = self.model_copy()
        groups = np.minimum(groups, self.groups)  # the last stands for all that are new
        term._tensors = on_other_items(self._tensors, known, groups, described, facts)
        return term

    def facts_of(self, items: Sequence[Mapping[str, object]]) -> tuple[Facts, int]:
        """Read the columns and dates of items."""
        return facts_of(self.encoder, self._dates_read, self._tensors, items)

    def with_items(self, groups: npt.NDArray[np.integer], facts: Facts) -> Self:
        """Return the same network with more items behind those it knows."""
        term = self.model_copy()
        groups = np.minimum(groups, self.groups)
        term._later = with_later(self._tensors, self._later, groups, facts)
        return term

    def reads_otherwise(self, items: Int64Array, facts: Facts) -> npt.NDArray[np.bool_]:
        """Return for which items [R] of its fit facts say other than it knows from there."""
        return read_otherwise(self._tensors, items, facts)

    def refuse_misfits(self, values: Mapping[str, object], *, row: int | None = None) -> None:
        """Refuse columns and dates of an item that are of another kind."""
        refuse_other_kinds(self.encoder, self._dates_read, values, row)

    @property
    def reads_items(self) -> tuple[str, ...]:
        """The columns that it reads, and the dates."""
        columns = () if self.encoder is None else self.encoder.columns
        return *(column.name for column in columns), *self._dates_read

    @property
    def columns_read(self) -> pl.DataFrame:
        """What it knows of the columns and dates of the items it was fitted to: I rows."""
        found = pl.DataFrame()
        if self.encoder is not None and (columns := self._tensors.get("item_columns")) is not None:
            found = self.encoder.decode(columns[:-1].numpy())
        for number, name in enumerate(self._dates_read):
            times = pl.Series(name, self._tensors["item_dates"][number].numpy())
            known = times.set(times == MISSING, None)
            found = found.with_columns(known.cast(pl.Datetime("us")))
        return found

    @property
    def _dates_read(self) -> tuple[str, ...]:
        return self.dates if "item_dates" in self._tensors else ()
