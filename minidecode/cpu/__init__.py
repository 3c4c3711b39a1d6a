"""Ops for which Numba on the CPU beats NumPy: the same files and functions as in reference/, compiled at first use."""
