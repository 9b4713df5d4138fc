"""The inner loops of ranking, compiled by numba: vectors, random numbers, heaps, passes, draws."""
