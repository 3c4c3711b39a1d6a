"""The ops as Numba-CUDA kernels: the same files and functions as in reference/.

Each file opens with its ladder: one sentence for what each version changes. Every version stays callable. Kernels
decorate without a GPU; launch.py runs them on one, or in the emulator.
"""
