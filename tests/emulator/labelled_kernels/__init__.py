"""Small kernels, each with the truth about it: about half are right and look suspicious, the others have one mistake.

The kinds follow what checkers of GPU kernels publish (HiRace, GPUVerify, Oclgrind); every kernel was written for this
project. benchmarks/kernel_suite.py runs the emulator over all of them.
"""

from . import atomics, contents, divergence, fences, global_memory, grid_barriers, shared_memory
from .labels import KINDS, Labelled

MODULES = (shared_memory, global_memory, divergence, atomics, fences, contents, grid_barriers)
KERNELS: list[Labelled] = [kernel for module in MODULES for kernel in module.KERNELS]

__all__ = ["KERNELS", "KINDS", "Labelled"]
