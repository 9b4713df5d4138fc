"""Whether the loops for a GPU, in Triton, can run."""

import functools
import importlib
import os

import torch
from torch import Tensor


@functools.cache
def has_triton() -> bool:
    """Return whether Triton can be imported, and with it the loops for a GPU."""
    try:
        importlib.import_module("triton")
    except ImportError:
        return False
    return True


def takes_triton(*floats: Tensor | None) -> bool:
    """Return whether the loops for a GPU take these tensors; None takes no part.

    Triton's interpreter (TRITON_INTERPRET=1) runs them on a CPU, slowly: to test them.
    """
    given = [tensor for tensor in floats if tensor is not None]
    if not all(tensor.dtype in (torch.float32, torch.int64) for tensor in given):
        return False
    there = all(tensor.is_cuda for tensor in given) or os.environ.get("TRITON_INTERPRET") == "1"
    return there and has_triton()
