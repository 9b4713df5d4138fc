"""The connection to a Ray cluster."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from slatewise.errors import SlatewiseError, install_remedy

LOCAL: Final = "local"
"""The address that starts a cluster of this machine alone, and ends it afterwards."""


def ray_module() -> Any:
    """Return Ray, or raise an error with how to install it."""
    try:
        return import_module("ray")
    except ImportError as error:
        raise SlatewiseError("Ray is not installed.", install_remedy("cluster")) from error


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield Ray, connected to the cluster at an address such as auto, or to a local one.

    Who is connected already stays so, and uses that.
    """
    ray = ray_module()
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    try:
        if address == LOCAL:
            ray.init(include_dashboard=False, **options)
        else:
            ray.init(address=address, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise SlatewiseError(
            f"no Ray cluster answers at {address}: {error}",
            "Start one with `ray start --head` and give its address, or --ray local.",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()
