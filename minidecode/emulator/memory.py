"""Pieces of memory that a launch uses, their addresses, and the kinds of accesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LOAD, STORE, ATOMIC = 0, 1, 2
SHARED_BASE = 1 << 44  # shared memory lies from here on; global memory below
SIZE_CODES = 8  # an address is kept times this, plus log2 of the element's bytes


@dataclass(eq=False)
class Memory:
    """One piece of memory: an argument of the kernel, or one shared array of a block."""

    name: str
    space: str  # "global" or "shared"
    start: int  # its first byte, as the emulator numbers bytes
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    nbytes: int

    def element(self, address: int) -> str:
        """The element at this address as the source writes it: `s[32]`, `a[3, 7]`."""
        offset, index = address - self.start, [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda k: -abs(self.strides[k])):
            stride = abs(self.strides[axis])
            if self.shape[axis] > 1 and stride:
                index[axis], offset = offset // stride, offset % stride
                if self.strides[axis] < 0:
                    index[axis] = self.shape[axis] - 1 - index[axis]
        return f"{self.name}[{', '.join(map(str, index))}]"
