"""How tensor cores add up: products of eight inputs exactly, and each partial sum cut off to a float32."""

from __future__ import annotations

import numpy as np

TOGETHER = 8  # inputs that one instruction adds to a sum


def cut_off(numbers):
    """Numbers in float64, each as the next float32 on the side of 0; what float32 cannot hold is an infinity."""
    with np.errstate(over="ignore"):
        near = np.asarray(numbers, np.float32)
    is_beyond = (np.abs(near) > np.abs(numbers)) & np.isfinite(near)
    return np.where(is_beyond, np.nextafter(near, np.float32(0)), near)


def tensor_core_product(a, b):
    """a @ b of float16, as float32: all results at once, eight inputs after the other."""
    sums = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), np.float32)
    with np.errstate(invalid="ignore"):
        for k in range(0, a.shape[-1], TOGETHER):
            some = a[..., k : k + TOGETHER].astype(np.float64) @ b[..., k : k + TOGETHER, :].astype(np.float64)
            sums = cut_off(sums + some)
    return sums
