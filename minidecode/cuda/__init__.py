"""The ops as Numba-CUDA kernels, under the same file and function names. Shared code is in common/.

Each file opens with its ladder: one sentence for what each version changes. Every version stays callable. Kernels
decorate without a GPU; launch.py runs them on one, or in the emulator.

A docstring gives the launch, grid and block, and the bytes that all threads ask for, whether memory or a cache serves
them. Letters are those of dims.py; s is the size of the number that it names.
"""
