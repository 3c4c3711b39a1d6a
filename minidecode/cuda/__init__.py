"""The ops as Numba-CUDA kernels, under the same file and function names. Shared code is in common/.



Each file opens with its ladder: one sentence for what each version changes. Every version stays callable. Kernels
decorate without a GPU; launch.py runs them on one, or in the emulator.
"""

from ..errors import OptionError
from ..reference import scratch


def in_float32(array):
    """The array, if kernels that know no other number take it."""
    if array.dtype != "float32":
        raise OptionError(f"these kernels compute in float32, not {array.dtype}: plan=auto computes in both")
    return array


def filled(workspace, shape, like, number, dtype=None):
    """Room, as `room` finds it, in which every number is this one."""
    array = scratch(workspace, shape, like, dtype)
    array[...] = number
    return array
