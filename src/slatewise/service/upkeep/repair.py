"""Putting a store right: times from the future, void changes, traces of erased people."""

from dataclasses import dataclass
from pathlib import Path

from slatewise.service.serving.item_states import COUNTS
from slatewise.service.serving.live import settled_changes
from slatewise.service.store import Store
from slatewise.service.store.clock import wall_clock


@dataclass(frozen=True)
class Repair:
    """What was put right."""

    slates: int
    """that were dated later than now"""
    changes: int
    """of items, from before all versions, that later ones made void"""
    scrubbed: bool
    """whether SQLite's file was written anew, without traces of erased people"""


def repair(directory: Path, store: Store) -> Repair:
    """Put a store right, by this computer's clock; workers read it when they start again."""
    slates = store.repair_times(wall_clock())
    if slates:
        for counts in directory.glob(f"models/*/*/{COUNTS}"):  # they are of the wrong times
            counts.unlink()
    return Repair(slates, compact_items(directory, store), store.scrub())


def compact_items(directory: Path, store: Store) -> int:
    """Forget changes of items from before all versions of a service; return how many those were.

    Slates of versions that are kept can be made again all the same.
    """
    return store.compact_items(settled_changes(directory))
