"""What a machine can move and compute at the most: one by measurement, others by their data sheets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..catalog import Cost
from ..errors import OptionError


@dataclass(frozen=True)
class Machine:
    """bandwidth: bytes/s of main (or device) memory. operations: float32 operations/s, a multiply-add being two.

    tensor_operations: those of float16 matrix products on tensor cores, where there are such. memory: bytes of the main
    (or device) memory, where a data sheet says them.
    """

    name: str
    bandwidth: float
    operations: float
    source: str
    tensor_operations: float | None = None
    memory: int | None = None

    @property
    def balance(self) -> float:
        """Operations per byte at which both limits meet: work with fewer waits for memory."""
        return self.operations / self.bandwidth

    def seconds(self, cost: Cost) -> float:
        """The least time, if moving and computing overlap wholly: the roofline (Williams et al. 2009)."""
        return max(cost.bytes / self.bandwidth, cost.operations / self.operations)

    def on_tensor_cores(self) -> Machine:
        """The same machine for float16 matrix products. Raises OptionError where it has no units for them."""
        if self.tensor_operations is None:
            raise OptionError(f"{self.name} has no tensor cores")
        return replace(self, operations=self.tensor_operations)


MACHINES = {
    m.name: m
    for m in [
        Machine("v100", 900e9, 15.7e12, "data sheet, SXM2", 125e12, 16 * 10**9),
        Machine("t4", 320e9, 8.1e12, "data sheet", 65e12, 16 * 10**9),
        Machine("h200", 4.8e12, 67e12, "data sheet, SXM, without tensor cores", 989e12, 141 * 10**9),
    ]
}


def this_machine(xp=np, synchronize: Callable[[], None] = lambda: None, repeats: int = 5) -> Machine:
    """By measurement: the best of a few copies of 256 MB, and of a few float32 products of 1024-cubed matrices.

    xp: NumPy, or CuPy for the GPU, with what waits for it.
    """
    source = xp.ones(32 * 2**20)
    target = xp.empty_like(source)
    a = xp.ones((1024, 1024), np.float32)

    def copy() -> None:
        target[...] = source
        synchronize()

    def multiply() -> None:
        a @ a
        synchronize()

    copying, computing = (min(_seconds(call) for _ in range(repeats)) for call in (copy, multiply))
    return Machine("this", 2 * source.nbytes / copying, 2 * 1024**3 / computing, "measured now")


def _seconds(call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
