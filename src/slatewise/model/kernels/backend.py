"""Which backend runs a kernel: the compiled loops, imported on first use, or plain torch."""

import functools
import importlib
from collections.abc import Iterable
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

Backend = Literal["auto", "numba", "torch"]

FusedRelevance = Literal["distance", "dot"]
"""Names of those that the compiled loops know."""
GpuRelevance = Literal["distance", "dot"]
"""Names of those that the kernels for a GPU know."""

MOST_DIMS = 256
"""Beyond this, a row no longer fits the registers and compiling it takes long."""


class RelevanceFunction(Protocol):
    """A utility of states and vectors, differentiable in both.

    Anything with these attributes can be trained: with `fused`, by the compiled loops, which know
    it by its name; without, by the reference in torch.
    """

    @property
    def name(self) -> str:
        """Return what errors, and the compiled loops, call it."""

    @property
    def fused(self) -> bool:
        """Return whether the compiled loops know it."""

    def pairs(self, states: Tensor, vectors: Tensor, /) -> Tensor:
        """Return the utility of each vector [..., D] to its own state [..., D]: [...]."""

    def many(self, states: Tensor, vectors: Tensor, /) -> Tensor:
        """Return the utilities of vectors [K, D] to states [M, D], for a sum over many: [M, K]."""


@functools.cache
def has_numba() -> bool:
    """Return whether numba can be imported, and with it the compiled loops."""
    try:
        importlib.import_module("numba")
    except ImportError:
        return False
    return True


@functools.cache
def loops(name: str) -> Any:
    """Return a module of `kernels.loops`."""
    return importlib.import_module(f"slatewise.model.kernels.loops.{name}")


def takes_numba(
    backend: Backend,
    dims: int,
    floats: Iterable[Tensor],
    relevance: RelevanceFunction | None = None,
) -> bool:
    """Return whether to run the compiled loop; asking for it where it cannot run is an error."""
    obstacle = None
    if any(tensor.device.type != "cpu" or tensor.dtype != torch.float32 for tensor in floats):
        obstacle = "takes float32 on the CPU only"
    elif not 1 <= dims <= MOST_DIMS:
        obstacle = f"takes 1 to {MOST_DIMS} dimensions"
    elif relevance is not None and not has_loop(relevance):
        obstacle = f"has no loop for the relevance '{relevance.name}'"
    elif backend != "torch" and not has_numba():
        obstacle = "needs numba"
    if backend == "numba" and obstacle:
        raise ValueError(f"the numba backend {obstacle}")
    return backend != "torch" and obstacle is None


def has_loop(relevance: RelevanceFunction) -> bool:
    """Return whether compiled loops know a relevance."""
    return relevance.fused and relevance.name in get_args(FusedRelevance)


def has_kernel(relevance: RelevanceFunction) -> bool:
    """Return whether the kernels for a GPU know a relevance."""
    return relevance.fused and relevance.name in get_args(GpuRelevance)


def is_distance(relevance: str) -> bool:
    """Return which of two equations a kernel is to take; raise for one that it does not know.

    Kernels with a third must ask otherwise: taken for one of these, it would be another utility.
    """
    known: dict[str, bool] = {"distance": True, "dot": False}
    if relevance not in known:
        raise ValueError(f"this kernel has no equation for the relevance '{relevance}'")
    return known[relevance]


def plain(tensor: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the tensor as the loops want it: of that type, contiguous, without gradient."""
    return tensor.detach().to(dtype).contiguous()
