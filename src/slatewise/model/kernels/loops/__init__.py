"""The inner loops of training, compiled by numba; imported only where numba is installed."""
