"""What all models of a night learn from, taken out of the store when the first one asks."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from slatewise.data.dataset import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.service.nights.window import Progress, VisitStore, Window, export_window
from slatewise.service.store.clock import DAY


@dataclass(frozen=True)
class Material:
    """The log of a window that ends now."""

    folder: Path
    """gone when the night is over"""
    store: VisitStore
    now: int
    """microseconds since 1970"""
    days: float
    progress: Progress

    @cached_property
    def window(self) -> Window:
        """The log and the items."""
        start = self.now - round(self.days * DAY)
        return export_window(self.store, self.folder, start, self.now, self.progress)

    @cached_property
    def dataset(self) -> SlateDataset:
        """The same, prepared."""
        out, window = self.folder / "dataset", self.window
        return prepare(window.log, window.items, out, overwrite=True, progress=self.progress)
