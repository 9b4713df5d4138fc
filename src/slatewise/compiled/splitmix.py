"""SplitMix64 (Steele, Lea and Flood, 2014): 64 bits for each number, and what is made of them."""

import math
from typing import Final

import torch
from torch import Tensor

_GOLDEN: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST: Final = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND: Final = 0x94D049BB133111EB - (1 << 64)


def mixed(key: Tensor | int, counters: Tensor) -> Tensor:
    """Return 64 bits for each counter; integers wrap around."""
    bits = counters * _GOLDEN + key
    bits = (bits ^ shifted(bits, 30)) * _FIRST
    bits = (bits ^ shifted(bits, 27)) * _SECOND
    return bits ^ shifted(bits, 31)


def shifted(bits: Tensor, by: int) -> Tensor:
    """Shift to the right as if there were no sign."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def normals_of(bits: Tensor) -> Tensor:
    """Return a standard normal for each 64 bits, by Box and Muller's method."""
    high = shifted(bits, 32).to(torch.float32)
    low = (bits & 0xFFFFFFFF).to(torch.float32)
    radius = torch.sqrt(-2 * torch.log((high + 0.5) * 2.0**-32))
    return radius * torch.cos(low * (2 * math.pi * 2.0**-32))


def log_uniforms_of(bits: Tensor) -> Tensor:
    """Return the logarithm of a uniform of 53 bits for each 64."""
    return torch.log((shifted(bits, 11).double() + 0.5) * 2.0**-53)
