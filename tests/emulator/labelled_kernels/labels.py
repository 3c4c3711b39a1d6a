"""How a labelled kernel is kept: the kernel, a launch of it, and the truth about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

KINDS = {  # of a mistake -> which findings name it
    "shared": ("race",),
    "global": ("race",),
    "divergence": ("barrier", "warp"),
    "atomics": ("race", "deadlock", "endless"),
    "fences": ("race",),
    "uninitialised": ("uninitialised",),
    "outside": ("outside",),
    "grid": ("race", "barrier"),
}


@dataclass
class Labelled:
    """One kernel and one launch of it. A right one also says what its last argument holds afterwards."""

    kernel: object
    kind: str  # of KINDS: what it does wrong, or what it seems to do wrong
    is_right: bool
    why: str
    launch: tuple
    arguments: Callable[[], tuple]  # made anew for every run; the last one is the output
    expected: Callable[..., np.ndarray] | None = None  # from the arguments before the run
    options: dict = field(default_factory=dict)  # of md.emulate: arrays that begin empty, less patience

    @property
    def name(self) -> str:
        return getattr(self.kernel, "py_func", self.kernel).__name__


def labels(kernels: list[Labelled], kind: str):
    """Two decorators, `right` and `wrong`, that stand above `@cuda.jit` and add the kernel to the list."""

    def right(why: str, *launch, arguments, expected, **options):
        return lambda kernel: kernels.append(Labelled(kernel, kind, True, why, launch, arguments, expected, options))

    def wrong(why: str, *launch, arguments, **options):
        return lambda kernel: kernels.append(Labelled(kernel, kind, False, why, launch, arguments, None, options))

    return right, wrong


def floats(*shape: int) -> np.ndarray:
    """Different whole numbers, small enough that their sums are exact."""
    return (np.arange(np.prod(shape)) * 37 % 101 - 50).reshape(shape).astype(np.float32)


def ints(*shape: int) -> np.ndarray:
    return floats(*shape).astype(np.int32)


def zeros(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def counts(*shape: int) -> np.ndarray:
    """Counters, locks and flags: int32 zeros."""
    return np.zeros(shape, np.int32)
