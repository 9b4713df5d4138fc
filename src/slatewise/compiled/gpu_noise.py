"""Noise of the loops for a GPU: counted, not streamed.

A number depends on a key and on a counter alone. So it is made again where it is needed again, and
never kept in memory. Import it only where Triton is (`gpu.takes_triton`).
"""

import triton
import triton.language as tl


@triton.jit
def mixed(key, counter):
    """Return the 64 bits of a counter, as `compiled.splitmix.mixed` does."""
    bits = key.to(tl.uint64) + counter.to(tl.uint64) * 0x9E3779B97F4A7C15
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB
    return bits ^ (bits >> 31)


@triton.jit
def log_uniform(key, counter):
    """Return the logarithm of a uniform of 53 bits."""
    return tl.log(((mixed(key, counter) >> 11).to(tl.float64) + 0.5) * 1.1102230246251565e-16)


@triton.jit
def normal(key, counter):
    """Return the standard normal of a counter, as `compiled.splitmix.normals_of` does."""
    bits = mixed(key, counter)
    first = (bits >> 32).to(tl.uint32).to(tl.float32)
    second = (bits & 0xFFFFFFFF).to(tl.uint32).to(tl.float32)
    radius = tl.sqrt(-2.0 * tl.log((first + 0.5) * 2.3283064365386963e-10))
    # The series of −cos around half a turn: a library's cosine is ready for any angle, and keeps
    # what that takes in memory.
    angle = second * 1.4629180792671596e-09 - 3.141592653589793
    square = angle * angle
    series = 4.779477332387385e-14 * square - 1.1470745597729725e-11
    series = series * square + 2.08767569878681e-09
    series = series * square - 2.755731922398589e-07
    series = series * square + 2.48015873015873e-05
    series = series * square - 0.001388888888888889
    series = series * square + 0.041666666666666664
    series = series * square - 0.5
    return -radius * (series * square + 1.0)
