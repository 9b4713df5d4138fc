"""Functions of single floats that LLVM can make vector loops of, unlike those of the C library."""

import math
from typing import Any

import numpy as np
from numba import types

from slatewise.compiled.compilation import compiled, part
from slatewise.compiled.llvm import FLOAT, INT32, intrinsic


@intrinsic
def bits(typing: Any, number: Any) -> Any:
    """Return the bits of a float as an integer."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], INT32)

    return types.int32(types.float32), generate


@intrinsic
def float_of_bits(typing: Any, bits: Any) -> Any:
    """Return the float that has these bits."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], FLOAT)

    return types.float32(types.int32), generate


_ZERO, _ONE, _TWO, _LOWEST = np.float32(0), np.float32(1), np.float32(2), np.float32(-80)
_PER_LN2, _ROUND = np.float32(math.log2(math.e)), np.float32(1.5 * 2**23)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_P0, _P1, _P2 = (
    np.float32(1.9875691500e-4),
    np.float32(1.3981999507e-3),
    np.float32(8.3334519073e-3),
)
_P3, _P4, _P5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(0.50000001201)


@compiled
def exponential(x: Any) -> Any:
    """Compute exp(x) for x <= 0 as Cephes does, to 1e-7; exactly 0 below -80, NaN for NaN.

    Results below -80 would soon be denormal numbers, on which arithmetic is many times slower.
    Not reordered: ln 2 is taken off in two parts, whose order is what makes it exact.
    """
    y = _LOWEST if x < _LOWEST else x
    shifted = y * _PER_LN2 + _ROUND  # the low bits of this float are the nearest integer
    power = shifted - _ROUND
    y = y - power * _LN2_HIGH
    y = y - power * _LN2_LOW
    polynomial = ((((_P0 * y + _P1) * y + _P2) * y + _P3) * y + _P4) * y + _P5
    mantissa = polynomial * y * y + y + _ONE
    # 2^power, by writing power into the exponent's bits; what is above them is shifted out.
    exponent = np.int32((bits(shifted) + np.int32(127)) << np.int32(23))
    return _ZERO if x < _LOWEST else mantissa * float_of_bits(exponent)


@part
def sigmoid(x: Any) -> Any:
    """Compute 1 / (1 + exp(-x))."""
    small = exponential(-abs(x))  # never of a positive number, which could overflow
    return (_ONE if x >= 0 else small) / (_ONE + small)


@part
def tanh(x: Any) -> Any:
    """Compute the hyperbolic tangent."""
    small = exponential(-_TWO * abs(x))
    size = (_ONE - small) / (_ONE + small)
    return size if x >= 0 else -size
