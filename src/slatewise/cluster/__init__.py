"""Work that one machine does not finish in time, spread over a Ray cluster (extra `cluster`)."""

from typing import TYPE_CHECKING

from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.cluster.connection import connected as connected
    from slatewise.cluster.tasks import iterate_on_cluster as iterate_on_cluster
    from slatewise.cluster.tasks import map_on_cluster as map_on_cluster
    from slatewise.cluster.tasks import run_on_cluster as run_on_cluster
    from slatewise.cluster.training import TrainingJob as TrainingJob

__all__, __dir__, __getattr__ = exports(
    __name__,
    {
        "connection": "connected",
        "tasks": "iterate_on_cluster map_on_cluster run_on_cluster",
        "training": "TrainingJob",
    },
)
