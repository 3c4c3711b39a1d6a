"""The peak bandwidth and arithmetic of machines: this one by measurement, others by their data sheets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from ..catalog import Cost
from ..errors import OptionError
from ..ops import Weight


@dataclass(frozen=True)
class Machine:
    """bandwidth: bytes/s of main (or device) memory. operations: float32 operations/s, a multiply-add being two.

    tensor_operations: those of float16 matrix products on tensor cores, where there are such. memory: bytes of the main
    (or device) memory, where a data sheet says them. int8_operations: products and sums of bytes; None if the machine
    has no instruction for them, or they were not measured: then they count as float32's.
    """

    name: str
    bandwidth: float
    operations: float
    source: str
    tensor_operations: float | None = None
    memory: int | None = None
    int8_operations: float | None = None

    @property
    def balance(self) -> float:
        """Operations per byte at which both limits meet: work with fewer waits for memory."""
        return self.operations / self.bandwidth

    def seconds(self, cost: Cost) -> float:
        """The least time, if moving and computing overlap wholly: the roofline (Williams et al. 2009)."""
        return max(cost.bytes / self.bandwidth, self.computing_seconds(cost))

    def computing_seconds(self, cost: Cost) -> float:
        """The least time of its operations: those with floats, and then those with bytes."""
        of_floats = (cost.operations - cost.int8_operations) / self.operations
        return of_floats + cost.int8_operations / (self.int8_operations or self.operations)

    def on_tensor_cores(self) -> Machine:
        """This machine for float16 matrix products. Raises OptionError where it has no units for them."""
        if self.tensor_operations is None:
            raise OptionError(f"{self.name} has no tensor cores")
        return replace(self, operations=self.tensor_operations)


DP4A = 4  # products of bytes in the place of one of floats, at most: GPUs' instruction without tensor cores
MACHINES = {
    m.name: m
    for m in [
        Machine("v100", 900e9, 15.7e12, "data sheet, SXM2", 125e12, 16 * 10**9, DP4A * 15.7e12),
        Machine("t4", 320e9, 8.1e12, "data sheet", 65e12, 16 * 10**9, DP4A * 8.1e12),
        Machine("h100", 3.35e12, 67e12, "data sheet, SXM, without tensor cores", 989e12, 80 * 10**9, DP4A * 67e12),
        Machine("h200", 4.8e12, 67e12, "data sheet, SXM, without tensor cores", 989e12, 141 * 10**9, DP4A * 67e12),
    ]
}


def this_machine(
    xp=np, synchronize: Callable[[], None] = lambda: None, repeats: int = 5, int8: bool = False
) -> Machine:
    """This machine as measured: the best of a few copies of 256 MB, and of a few float32 products of 1024-cubed
    matrices.

    xp: NumPy, or CuPy for the GPU, with what waits for it. int8: also measure products of bytes of that size, by the
    processor's integer dot product, if it has one; of a GPU they are DP4A times the float32 ones.
    """
    source = xp.ones(32 * 2**20)
    target = xp.empty_like(source)
    a = xp.ones((1024, 1024), np.float32)

    def copy_array() -> None:
        target[...] = source
        synchronize()

    def multiply_matrices() -> None:
        a @ a
        synchronize()

    copying, computing = (
        min(_seconds_of_one_call(call) for _ in range(repeats)) for call in (copy_array, multiply_matrices)
    )
    operations, of_bytes = 2 * 1024**3 / computing, None
    if int8:
        of_bytes = _int8_operations(repeats) if xp is np else DP4A * operations
    return Machine("this", 2 * source.nbytes / copying, operations, "measured now", int8_operations=of_bytes)


def _int8_operations(repeats: int) -> float | None:
    """Operations a second of 1024-cubed products of bytes, rounding included; None where no instruction multiplies
    them.
    """
    from ..cpu.common.panel_gemm import pack_int8
    from ..cpu.common.tile import DOT
    from ..cpu.linear_int8 import linear_int8

    if DOT is None:
        return None
    bits = DOT.x_bits
    data, scale_X = np.ones((1024, 1024), np.int8), np.ones(1024, np.float32)
    x_RX, weight = np.ones((1024, 1024), np.float32), pack_int8(Weight(data, scale=scale_X, layout="oi", x_bits=bits))
    linear_int8(x_RX, weight)  # compiled, or loaded
    return 2 * 1024**3 / min(_seconds_of_one_call(lambda: linear_int8(x_RX, weight)) for _ in range(repeats))


def _seconds_of_one_call(call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def known_machines(machine: str | Iterable[str], *also: str) -> list[str]:
    """The names of other machines, as a list. Raises OptionError on one that is neither known nor among `also`."""
    others = [machine] if isinstance(machine, str) or not isinstance(machine, Iterable) else list(machine)
    known = (*also, *MACHINES)
    if unknown := [other for other in others if other not in known]:
        raise OptionError(f"there is no machine {unknown[0]!r:.80}: say {', '.join(known)}")
    return others
