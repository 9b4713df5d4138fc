"""What commands share that run on a Ray cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slatewise.cli.show import console
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError

if TYPE_CHECKING:
    from slatewise.data.parts import OrderedMap
    from slatewise.experiments.study import Each, SideBySide
    from slatewise.model.config import ModelConfig
    from slatewise.model.fitted import SlateModel
    from slatewise.training.config import TrainingConfig
    from slatewise.training.peers import Peers
    from slatewise.training.trainer import Observer


def joined_peers(ray: str | None, workers: int, device: str, *, auto: bool) -> "Peers":
    """Join the workers that `torchrun` started; only the first prints.

    Refuses options that do not go together.
    """
    from slatewise.training.peers import Peers  # noqa: PLC0415 (torch is slow to load)

    if ray is None and workers > 1:
        raise SlatewiseError(
            f"--workers {workers} asks for a cluster.", "Name it with --ray, or --ray local."
        )
    peers = Peers.of_environment(device)
    if auto and peers.size > 1:
        raise SlatewiseError(
            "--auto chooses terms in one process.", "Choose them first, then train with --terms."
        )
    console.quiet = peers.rank > 0
    return peers


def on_ray(address: str, workers: int) -> "Callable[..., SlateModel]":
    """Return a function like `fit` that trains on a cluster and loads the run it wrote."""
    from slatewise.cluster import TrainingJob, connected  # noqa: PLC0415 (an optional dependency)
    from slatewise.training import StoppedError, runs  # noqa: PLC0415

    def fit(
        dataset: SlateDataset,
        model: "ModelConfig",
        training: "TrainingConfig",
        *,
        run: Path,
        observer: "Observer",
        **more: Any,
    ) -> "SlateModel":
        job = TrainingJob(dataset.path.resolve(), run.resolve(), model, training, **more)
        with connected(address):
            try:
                job.train(workers, observer, console.print)
            except KeyboardInterrupt:
                raise StoppedError("training was stopped.", "Resume it with --resume.") from None
        return runs.load(run)

    return fit


class UnitsOnCluster(NamedTuple):
    """How the units of a study run: here, one at a time, if there is no cluster."""

    jobs: int = 1
    side_by_side: "SideBySide | None" = None
    each: "Each | None" = None


@contextmanager
def units_on_ray(address: str | None) -> Iterator[UnitsOnCluster]:
    """Connect to a cluster, if there is one, for as many units as it has cores."""
    if address is None:
        yield UnitsOnCluster()
        return
    from slatewise.cluster import connected, map_on_cluster, run_on_cluster  # noqa: PLC0415

    with connected(address) as ray:
        cores = int(ray.cluster_resources().get("CPU", 1))
        yield UnitsOnCluster(cores, run_on_cluster, map_on_cluster)


@contextmanager
def parts_on_ray(address: str | None) -> "Iterator[OrderedMap | None]":
    """Connect to a cluster, if there is one, for the parts of a preparation."""
    if address is None:
        yield None
        return
    from slatewise.cluster import connected, iterate_on_cluster  # noqa: PLC0415

    with connected(address):
        yield iterate_on_cluster
