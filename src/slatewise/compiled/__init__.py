"""One toolkit for everything that numba compiles: decorators, cache, vectors, functions.

Kernels stay with the part that they serve and build upon this package. Import its modules only
where a kernel is needed: numba takes time to load.
"""
