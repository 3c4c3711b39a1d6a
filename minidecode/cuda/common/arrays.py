"""Arrays as the kernels take them."""

from __future__ import annotations

from ...errors import OptionError
from ...reference import scratch


def require_float32(array):
    """The array, if kernels that know no other number take it."""
    if array.dtype != "float32":
        raise OptionError(f"these kernels compute in float32, not {array.dtype}: plan=auto computes in both")
    return array


def filled_scratch(workspace, shape, like, number, dtype=None):
    """Room, as `room` finds it, in which every number is this one."""
    array = scratch(workspace, shape, like, dtype)
    array[...] = number
    return array
