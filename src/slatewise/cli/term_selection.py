"""Choosing terms for `slatewise train --auto`: afresh, or from where it was stopped."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table

from slatewise.cli.show import console, progress, table
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig
    from slatewise.model.item_features import ItemFeatures
    from slatewise.selection import Choice, Selection
    from slatewise.training.config import TrainingConfig


class Place(NamedTuple):
    """Where a run is, or will be."""

    run: Path
    memory: Path
    """finished trials, beside the run: a directory that holds anything is a run that has begun"""
    begun: bool
    """whether its training was begun and is to go on"""


def require_cpu(device: str) -> None:
    """Refuse to choose terms for a device that cannot train them."""
    if device != "cpu":
        raise SlatewiseError(
            "terms of the utility cannot be trained on a GPU.",
            "Leave out --auto, or train on the CPU (--device cpu).",
        )


def place_of(run: Path, *, resume: bool) -> Place:
    """Look what there is to go on from; refuse to overwrite a run, and to go on from none."""
    memory, begun = run.with_name(f".{run.name}.trials"), run.exists() and any(run.iterdir())
    if begun and not resume:
        raise SlatewiseError(
            f"{run} exists already.", "Go on with --resume, or choose another place."
        )
    if resume and not begun and not memory.exists():
        raise SlatewiseError(f"there is nothing of {run} to go on from.", "Leave out --resume.")
    if not resume:
        memory.unlink(missing_ok=True)
    return Place(run, memory, begun)


def choose(
    dataset: SlateDataset,
    model: "ModelConfig",
    training: "TrainingConfig",
    item_features: "ItemFeatures | None",
    place: Place,
    seed: int,
) -> "tuple[Choice, Selection | None]":
    """Choose terms, or take those that a stopped run was begun with; say which and why."""
    from slatewise.selection import read_choice, select  # noqa: PLC0415 (torch is slow to load)

    stored = read_choice(place.run, model) if place.begun else None
    if stored is not None:
        return stored, None
    with progress() as bars:
        found = select(
            dataset,
            model,
            training=training,
            item_features=item_features,
            seed=seed,
            memory=place.memory,
            progress=bars,
        )
    console.print(_account(found))
    for note in found.notes:
        console.print(note, style="dim")
    console.print(f"\nChosen: {found.choice.name}\n")
    return found.choice, found


def _account(found: "Selection") -> Table:
    """Show every candidate with its gain in the round that settled it."""
    judged = f"{found.about['judged_interactions']:,} interactions"
    title = f"What a term gains, in nats per interaction, with 95 % intervals over users ({judged})"
    result = table(title, "term", "round", "gain", "interval", "")
    for number, one in found.last_tried():
        gain, low, high = (f"{x:+.4f}".replace("-", "−") for x in (one.gain, one.low, one.high))
        kept = "kept" if one.outcome == "kept" else "not kept"
        result.add_row(one.name, str(number), gain, f"[{low}, {high}]", kept)
    for name, why in found.impossible.items():
        result.add_row(name, "", "", "", f"not tried: {why}")
    return result
