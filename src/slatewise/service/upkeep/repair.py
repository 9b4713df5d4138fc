"""Putting a store right: times from the future, void changes, traces of erased people."""

from dataclasses import dataclass
from pathlib import Path

from slatewise.service.serving.initial_state import shared_bases
from slatewise.service.serving.item_states import COUNTS
from slatewise.service.serving.live import settled_changes
from slatewise.service.store import Store
from slatewise.service.store.clock import wall_clock


@dataclass(frozen=True)
class Repair:
    """What was repaired."""

    slates: int
    """that were dated later than now"""
    changes: int
    """of items, from before all versions, that later ones made void"""
    scrubbed: bool
    """whether SQLite's file was written anew, without traces of erased people"""


def repair(directory: Path, store: Store) -> Repair:
    """Repair a store by this computer's clock; workers see it after a restart."""
    slates = store.repair_times(wall_clock())
    if slates:
        for counts in directory.glob(f"models/*/*/{COUNTS}"):  # they are of the wrong times
            counts.unlink()
    return Repair(slates, compact_items(directory, store), store.scrub())


def compact_items(directory: Path, store: Store) -> int:
    """Forget changes of items from before all versions of a service; return how many those were.

    Slates of versions that are kept can be made again all the same, also of those that only other
    hosts have.
    """
    names = [folder.name for folder in directory.glob("models/*")]
    shared = [base for name in names for base in shared_bases(store.shelf(name))]
    return store.compact_items(min([settled_changes(directory), *shared]))
