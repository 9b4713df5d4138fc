"""Repairing a service that is stopped: times from the future, and traces of erased people."""

from dataclasses import dataclass
from pathlib import Path

from slatewise.service.serving.item_states import COUNTS
from slatewise.service.store import Store
from slatewise.service.store.clock import wall_clock


@dataclass(frozen=True)
class Repair:
    """What was put right."""

    slates: int
    """that were dated later than now"""
    scrubbed: bool
    """whether SQLite's file was written anew, without traces of erased people"""


def repair(directory: Path, store: Store) -> Repair:
    """Put a store right, by this computer's clock; workers read it when they start again."""
    slates = store.repair_times(wall_clock())
    if slates:
        for counts in directory.glob(f"models/*/*/{COUNTS}"):  # they are of the wrong times
            counts.unlink()
    return Repair(slates, store.scrub())
