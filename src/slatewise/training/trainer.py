"""Fits a model to a dataset: in memory, or as a run that can be interrupted and resumed."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.features.threads import one_thread_of_torch
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.model.parts import require_device
from slatewise.model.registry import TERMS
from slatewise.model.resident import resident
from slatewise.model.terms import FittedTerms, with_automatic_terms
from slatewise.training import runs
from slatewise.training.config import TrainingConfig
from slatewise.training.loop import Progress, Training
from slatewise.training.next_click import fit_ranking
from slatewise.training.peers import ALONE, Peers
from slatewise.training.pool import fit_pool
from slatewise.training.sizes import LogSize, settled
from slatewise.training.unused import refuse_unused
from slatewise.training.warm import take_over

Observer = Callable[[Progress], None]
"""Called after every step with the progress; at `step` 0 an epoch has just ended."""

CHECKPOINT_SECONDS: Final = 60.0
"""Time between two checkpoints of a run."""


class StoppedError(SlatewiseError):
    """Training was interrupted and saved, and can be resumed."""


def fit(
    dataset: SlateDataset,
    model: ModelConfig | None = None,
    training: TrainingConfig | None = None,
    *,
    seed: int = 0,
    device: str = "cpu",
    start: SlateModel | None = None,
    item_features: ItemFeatures | None = None,
    run: str | Path | None = None,
    resume: bool = False,
    observer: Observer = lambda progress: None,
    doing: Callable[[str], None] = lambda what: None,
    peers: Peers = ALONE,
    checkpoint_seconds: float | None = None,
) -> SlateModel:
    """Fit a model; with `run`, save it there, with checkpoints from which `resume` continues.

    With `start`, start from the posterior of that model, items matched by id (see `warm`): an epoch
    that does not improve its validation likelihood is not kept.

    With `item_features`, the prior mean of an item depends on them and on its group.

    `doing` is called with what is done before the first step, in words.

    Settings that are not given follow the size of the log (`sizes`); the model has them.

    On the CPU, the same dataset, configuration and seed give the same model bit for bit, however
    often the run was interrupted and resumed; a GPU adds in no fixed order.

    With `peers`, several workers call this with the same arguments and train one model together,
    each on its share of the users; the first writes the run. What is fitted after training (the
    ranking of a catalogue, a network's pool) only the model of the first has.
    """
    model, training = settled(
        model or ModelConfig(),
        training or TrainingConfig(),
        LogSize.of(dataset),
        None if start is None else start.config,
        device,
    )
    for term in model.terms:
        own = TERMS[term].seed_setting
        if own is not None and not model.is_given(own):
            model = model.changed(**{own: seed})
    _require_validation(dataset)
    require_device(device)
    if run is not None and peers.rank == 0:
        runs.require_room(Path(run), resume=resume)
    groups = torch.tensor(dataset.item_groups, dtype=torch.int64, device=device)
    with one_thread_of_torch(), _stop_on_interrupt() as interrupted:
        model = with_automatic_terms(model, dataset)
        refuse_unused(model, training, item_features=item_features is not None)
        terms = FittedTerms.fit(model, dataset, device, doing)
        described = _described(terms, dataset, peers)
        work = Training(
            model,
            training,
            resident(described, device),
            groups,
            dataset.group_names,
            dataset.source_names,
            seed,
            start=None if start is None else partial(take_over, earlier=start, dataset=dataset),
            item_features=None if item_features is None else item_features.matrix.to(device),
            peers=peers,
        )
        about = {
            "seed": seed,
            "device": device,
            "training": training.model_dump(mode="json"),
            "dataset": {"path": str(dataset.path), "content_hash": dataset.content_hash},
            "item_features": None if item_features is None else item_features.digest,
        }
        checkpoint = None
        if run is not None:
            checkpoint = _Checkpoint(Path(run), model, about, peers, checkpoint_seconds)
        if checkpoint is not None:
            checkpoint.begin(work, resume=resume)
        for _ in work.advance():
            observer(work.progress)
            if checkpoint is not None:
                checkpoint.maybe(work)
            if peers.any(interrupted()):
                if checkpoint is None:
                    raise KeyboardInterrupt
                checkpoint.write(work)
                raise StoppedError("training was stopped and saved.", "Resume it with --resume.")
        posterior = work.result()
        posterior.to_("cpu")
        pooled = None
        if peers.rank == 0:
            posterior.ranking = fit_ranking(posterior, terms, dataset, seed)
            everything = described if peers.size == 1 else _described(terms, dataset, ALONE)
            pooled = fit_pool(posterior, terms, dataset, everything)
    fitted = SlateModel(
        posterior,
        dataset.item_ids.to_list(),
        dataset.group_names,
        dataset.source_names,
        work.views.cpu(),
        metrics={
            "validation_log_likelihood": work.progress.best if pooled is None else pooled,
            "epochs": len(work.progress.history),
            "best_epoch": work.progress.best_epoch,
            "warning": None if start is not None else work.progress.warning,
            "skipped_steps": work.progress.skipped,
        },
        terms=terms,
        item_encoder=None if item_features is None else item_features.encoder,
        history=work.progress.history,
    )
    if run is not None and peers.rank == 0:
        runs.write_model(fitted, Path(run), about)
    return fitted


def _require_validation(dataset: SlateDataset) -> None:
    """Refuse a log that training could not stop by, before terms are fitted to it."""
    if not (dataset.valid_end > dataset.train_end).any():
        raise SlatewiseError(
            "the dataset has no validation interactions, by which training knows when to stop.",
            "Prepare it with more users, a larger --valid-share or a smaller --prefix.",
        )


def _described(terms: FittedTerms, dataset: SlateDataset, peers: Peers) -> Interactions:
    """Return the interactions of a worker's users with the features of all terms."""
    describer = terms.in_training(dataset)
    if peers.size == 1:
        return describer.describe_all(dataset)
    return describer.describe(dataset.interactions().of_users(peers.share(dataset.num_users)))


class _Checkpoint:
    """Writes and reads the checkpoint of a run, and its log of epochs."""

    def __init__(
        self,
        path: Path,
        model: ModelConfig,
        about: dict[str, Any],
        peers: Peers,
        seconds: float | None,
    ) -> None:
        self._writes = peers.rank == 0
        self._seconds = CHECKPOINT_SECONDS if seconds is None else seconds
        self._file = path / runs.CHECKPOINT
        self._log = path / runs.LOG
        self._path = path
        # What must be unchanged to resume a run; the path of the dataset does not matter.
        self._settings = {
            "model": model.model_dump(mode="json"),
            "training": about["training"],
            "seed": about["seed"],
            "device": about["device"],
            "dataset": about["dataset"]["content_hash"],
            "item_features": about["item_features"],
            "workers": peers.size if peers.size > 1 else None,
        }
        self._written = time.monotonic()
        self._epochs = 0

    def begin(self, work: Training, *, resume: bool) -> None:
        """Start in a new directory, or resume from the checkpoint."""
        if resume:
            self._resume(work)
            return
        if not self._writes:
            return
        self._path.mkdir(parents=True, exist_ok=True)
        self.write(work)

    def _resume(self, work: Training) -> None:
        stored = runs.read_about(self._file)
        settings = json.loads(stored["settings"])
        for name, value in self._settings.items():
            if settings.get(name) != value:
                raise SlatewiseError(
                    f"the run in {self._path} was started with another {name}.",
                    "Resume with the same options and dataset, or start another run.",
                )
        work.restore(runs.read_tensors(self._file), json.loads(stored["progress"]))
        self._epochs = len(work.progress.history)
        if not self._writes:
            return
        # The log may be ahead of the checkpoint: its later epochs are taken again.
        records = [json.dumps(record) + "\n" for record in work.progress.history]
        self._log.write_text("".join(records), encoding="utf-8")

    def maybe(self, work: Training) -> None:
        """Log an epoch that has ended, and write a checkpoint when it is time."""
        if not self._writes:
            return
        for record in work.progress.history[self._epochs :]:
            with self._log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")
            self._epochs += 1
        if time.monotonic() - self._written > self._seconds:
            self.write(work)

    def write(self, work: Training) -> None:
        """Write everything needed to resume, in one file that appears whole."""
        if not self._writes:
            return
        tensors, progress = work.state()
        about = {"settings": json.dumps(self._settings), "progress": json.dumps(progress)}
        runs.write_tensors(self._file, tensors, about)
        self._written = time.monotonic()


@contextmanager
def _stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; the current step is finished."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def press(number: int, frame: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
