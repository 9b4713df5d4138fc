"""One model trained by several workers of a Ray cluster.

They are plain actors. Ray Train 2.60 does not end at Ctrl-C while it waits for processors, and if
the driver is killed, an actor stays for good on a cluster without Ray's dashboard. It also starts
six more processes, and its reports make all workers wait for each other.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from slatewise.cluster.connection import ray_module
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.item_features import ItemFeatures
from slatewise.model.parts import require_device
from slatewise.training import fit, runs
from slatewise.training.config import TrainingConfig
from slatewise.training.loop import Progress
from slatewise.training.peers import Peers
from slatewise.training.trainer import Observer

RESTARTS: Final = 3
"""How often training goes on from its checkpoint after workers died."""
_LOOK: Final = 0.5
"""Seconds between two looks at the workers."""


class TrainingWorker:
    """A process of the cluster that trains on its share of the users."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def process(self) -> int:
        """Return the number of its process."""
        return os.getpid()

    def address(self) -> str:
        """Return the address at which other workers can join: a free port of this machine."""
        ray = ray_module()
        with socket.socket() as free:
            free.bind(("", 0))
            return f"tcp://{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def progress(self) -> Progress | None:
        """Return the progress of training."""
        return self._progress

    def train(self, rank: int, size: int, address: str, job: "TrainingJob") -> None:
        """Train together with the other workers."""
        require_device(job.device)
        peers = Peers.join(rank, size, address, job.device)
        try:
            fit(
                SlateDataset.open(job.dataset),
                job.model,
                job.training,
                seed=job.seed,
                device=job.device,
                item_features=job.item_features,
                run=job.run,
                resume=job.resume,
                observer=self._observe,
                peers=peers,
                checkpoint_seconds=job.checkpoint_seconds,
            )
        finally:
            peers.leave()

    def _observe(self, at: Progress) -> None:
        self._progress = replace(at, history=list(at.history))


@dataclass
class TrainingJob:
    """A fit on a cluster: what `fit` is asked for, and the workers that are at it."""

    dataset: Path
    run: Path
    model: ModelConfig
    training: TrainingConfig
    seed: int = 0
    device: str = "cpu"
    item_features: ItemFeatures | None = None
    resume: bool = False
    checkpoint_seconds: float | None = None
    workers: list[Any] = field(default_factory=list, compare=False)
    """Handles of the `TrainingWorker`s, while there are any."""

    def train(
        self,
        size: int,
        observer: Observer = lambda progress: None,
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Train with several workers; if some die, resume from the checkpoint with new ones.

        Dataset and run must be on storage that all machines share. Each worker has a core, and a
        GPU if it trains there.
        """
        ray = ray_module()
        kind = "GPU" if self.device.startswith("cuda") else "CPU"
        there = int(ray.cluster_resources().get(kind, 0))
        if there < size:
            notice(f"The cluster has {there} {kind}s for {size} workers: training waits for more.")
        for restart in range(RESTARTS + 1):
            try:
                self._attempt(ray, size, observer)
                return
            except ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None)
                if isinstance(cause, SlatewiseError):
                    raise cause from error
                if restart == RESTARTS:
                    raise SlatewiseError(
                        f"workers failed {RESTARTS + 1} times: {error}",
                        "Give them more memory or have fewer; then go on with --resume.",
                    ) from error
                self.resume = (self.run / runs.CHECKPOINT).exists()
                start = "go on from the checkpoint" if self.resume else "begin anew"
                notice(f"A worker was lost: new ones {start}.")

    def _attempt(self, ray: Any, size: int, observer: Observer) -> None:
        # Two threads: one trains, the other tells how far it is.
        gpus = int(self.device.startswith("cuda"))
        remote = ray.remote(TrainingWorker).options(num_cpus=1, num_gpus=gpus, max_concurrency=2)
        self.workers = [remote.remote() for _ in range(size)]
        try:
            # All have started, before the first waits for the others to join.
            address, *_ = ray.get([worker.address.remote() for worker in self.workers])
            handed = replace(self, workers=[])
            running = [
                worker.train.remote(rank, size, address, handed)
                for rank, worker in enumerate(self.workers)
            ]
            seen: tuple[int, int, int] | None = None
            while running:
                done, running = ray.wait(running, num_returns=1, timeout=_LOOK)
                ray.get(done)
                at = ray.get(self.workers[0].progress.remote())
                if at is not None and (at.stage, at.epoch, at.step) != seen:
                    seen = (at.stage, at.epoch, at.step)
                    observer(at)
        finally:
            for worker in self.workers:
                ray.kill(worker)
            self.workers = []
