"""SplitMix64 (Steele, Lea and Flood, 2014): 64 bits for each number; integers wrap around."""

from typing import Final

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
