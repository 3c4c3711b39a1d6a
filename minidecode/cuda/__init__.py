"""The ops as Numba-CUDA kernels, under the same file and function names. Shared code is in common/.


Each file opens with its ladder: one sentence for what each version changes. Every version stays callable. Kernels
decorate without a GPU; launch.py runs them on one, or in the emulator.
"""
