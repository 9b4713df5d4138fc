"""The choice of terms for `slatewise train --auto`, which can be interrupted and resumed."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table

from slatewise.cli.show import bars, console, table
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.words import counted

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig
    from slatewise.model.item_features import ItemFeatures
    from slatewise.selection import CandidateResult, Comparison, ModelChoice, Selection
    from slatewise.training.config import TrainingConfig


class SelectionFiles(NamedTuple):
    """The files of a run whose terms are chosen first."""

    run: Path
    memory: Path
    """finished trials; beside the run, because a directory that is not empty is a run"""
    begun: bool
    """whether training has started, to be resumed"""


def require_cpu(device: str) -> None:
    """Refuse to choose terms on another device: trials are small, and run on the CPU."""
    if device != "cpu":
        raise SlatewiseError(
            f"the trials of --auto run on the CPU, and --device is {device}.",
            "Leave out --device; or choose first, then train the terms it chose (--terms, "
            "--evidence) with --device cuda.",
        )


def selection_files(run: Path, *, resume: bool) -> SelectionFiles:
    """Find what can be resumed; refuse to overwrite a run, or to resume where nothing is."""
    memory, begun = run.with_name(f".{run.name}.trials"), run.exists() and any(run.iterdir())
    if begun and not resume:
        raise SlatewiseError(
            f"{run} exists already.", "Resume it with --resume, or choose another directory."
        )
    if resume and not begun and not memory.exists():
        raise SlatewiseError(f"there is nothing in {run} to resume.", "Leave out --resume.")
    if not resume:
        memory.unlink(missing_ok=True)
    return SelectionFiles(run, memory, begun)


def choose(
    dataset: SlateDataset,
    model: "ModelConfig",
    training: "TrainingConfig",
    item_features: "ItemFeatures | None",
    files: SelectionFiles,
    seed: int,
) -> "tuple[ModelChoice, Selection | None]":
    """Choose terms and print why, or take the terms of the run to be resumed."""
    from slatewise.selection import read_choice, select  # noqa: PLC0415 (torch is slow to load)

    stored = read_choice(files.run, model) if files.begun else None
    if stored is not None:
        return stored, None
    with _trials() as report:
        found = select(
            dataset,
            model,
            training=training,
            item_features=item_features,
            seed=seed,
            memory=files.memory,
            progress=report,
        )
    console.print(_account(found))
    console.print(_comparisons(found))
    for one in found.better:
        console.print(
            f"'{one.name}' predicts better than the chosen model, by {-one.gain:.4f} nats: look at "
            "`slatewise evaluate` before using the model.",
            style="bold",
        )
    for note in found.notes:
        console.print(note, style="dim")
    console.print(f"\nChosen: {found.choice.name}\n")
    return found.choice, found


@contextmanager
def _trials() -> Iterator[Callable[[str, int, int], None]]:
    """Show on standard error what is tried, its progress and the time left.

    A bar on a terminal, and a line for each trial elsewhere.
    """
    began, second = time.monotonic(), 0.0
    with bars() as shown:
        task = shown.add_task("choosing terms")

        def report(trial: str, done: int, total: int) -> None:
            text = f"choosing terms: {trial}"
            shown.update(task, description=text, completed=done, total=total)
            if shown.disable:
                nonlocal second
                passed = time.monotonic() - began
                second = passed if done == 1 else second
                more = ""
                if done == 0:
                    more = "; a new installation compiles code first, for a minute"
                elif done > 1:
                    # The first, for which code is compiled, says little about the others.
                    each = (passed - second) / (done - 1)
                    more = f", about {each * (total - done):.0f} s more"
                line = f"{text} (trial {done + 1} of {total}; {passed:.0f} s so far{more})"
                print(line, file=sys.stderr, flush=True)

        yield report


def _account(found: "Selection") -> Table:
    """Show every candidate with its gain over the model without it."""
    judged = counted(found.about["judged_interactions"], "interaction")
    title = f"Gain of each term over the model without it, in nats ({judged})"
    result = table(title, "term", "gain", "interval", "")
    for one in found.results:
        result.add_row(one.name, *_gain(one), "kept" if one.kept else "not kept")
    for name, why in found.impossible.items():
        result.add_row(name, "", "", f"not tried: {why}")
    return result


def _comparisons(found: "Selection") -> Table:
    """Compare the chosen model with the alternatives on the same interactions."""
    title = "What the chosen model gains over others, on the same interactions"
    result = table(title, "compared with", "log-likelihood", "gain", "interval")
    for one in found.comparisons:
        result.add_row(one.name, _signed(one.log_likelihood), *_gain(one))
    return result


def _gain(one: "CandidateResult | Comparison") -> tuple[str, str]:
    return _signed(one.gain), f"[{_signed(one.low)}, {_signed(one.high)}]"


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
