"""The inner loops of ranking, compiled by numba: random numbers, heaps, passes, draws."""
