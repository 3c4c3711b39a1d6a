"""How the kernels of these tests are kept: a kernel, its launch, its arguments, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Case:
    """One kernel and one launch of it."""

    kernel: object
    launch: tuple
    arguments: Callable[[], tuple]  # made anew for every run; the last one is the output
    expected: Callable[..., np.ndarray] | None = None  # from the arguments before the run
    says: tuple[str, ...] = ()  # what an error must name
    kind: str = ""
    options: dict = field(default_factory=dict)
    simulator: bool = True  # whether Numba's own simulator has what the kernel uses
    rtol: float = 0.0

    @property
    def name(self) -> str:
        return getattr(self.kernel, "py_func", self.kernel).__name__


def collector(cases: list[Case]):
    """A decorator above `@cuda.jit` that adds the kernel to `cases`."""

    def case(*launch, arguments, **fields):
        def add(kernel):
            cases.append(Case(kernel, launch, arguments, **fields))
            return kernel

        return add

    return case


def floats(*shape: int) -> np.ndarray:
    """Different numbers, small enough that float32 sums of them are exact."""
    return (np.arange(np.prod(shape)) % 97 - 40).reshape(shape).astype(np.float32)


def zeros(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def marked(*shape: int) -> np.ndarray:
    """An output that nobody has written: a number that no kernel here computes."""
    return np.full(shape, -12345.0, np.float32)
