"""The ops for which Numba on the CPU beats NumPy, under the same file and function names. Shared code is in common/."""
