"""What really ran: a proxy around the ops that counts their calls, and the receipt made from it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .. import ops as signatures


@dataclass
class OpCount:
    """One op of one generation: which function it was, how often it ran, what it took."""

    implementation: str
    calls: int = 0
    seconds: float = 0.0
    bytes: int = 0  # arrays handed in and returned, once per call each; of a table, as much as came out


class CountedOps:
    """Stands in front of the ops; the forward pass and the search see functions of the same names."""

    def __init__(self, functions: dict[str, Any]):
        self._counts: dict[str, OpCount] = {}
        for name, function in functions.items():
            setattr(self, name, self._counted(name, function))

    def _counted(self, name, function):
        count = OpCount(f"{function.__module__}.{function.__qualname__}")
        parameters = list(inspect.signature(getattr(signatures, name)).parameters)
        tables = {parameters.index(table) for table in signatures.TABLES.get(name, ())}

        def call(*args, **kwargs):
            self._counts.setdefault(name, count)
            started = time.perf_counter()
            result = function(*args, **kwargs)
            count.seconds += time.perf_counter() - started
            count.calls += 1
            handed = [a for i, a in enumerate(args) if i not in tables]
            count.bytes += _bytes_of((*handed, *kwargs.values(), result, *[result] * len(tables)))
            return result

        return call

    def counts(self) -> dict[str, OpCount]:
        """The ops that were called, in the order of their first calls."""
        return self._counts


def _bytes_of(values: Iterable[Any]) -> int:
    total = 0
    for value in values:
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif isinstance(value, tuple):
            total += _bytes_of(value)
        elif hasattr(value, "__dataclass_fields__"):
            total += _bytes_of(vars(value).values())
    return total


def held_bytes(arrays: Iterable[np.ndarray]) -> int:
    """Bytes kept alive by these arrays: each distinct base array once, whole, however small the view into it."""
    bases = {}
    for array in arrays:
        while isinstance(array.base, np.ndarray):
            array = array.base
        bases[id(array)] = array.nbytes
    return sum(bases.values())


@dataclass
class Receipt:
    """What one call of `generate` did."""

    plan: str
    ops: dict[str, OpCount] = field(default_factory=dict)
    memory: str = ""
    memory_peak_bytes: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0  # in the hypotheses returned
    steps: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # by stage

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        stages = ", ".join(f"{stage} {s:.3f} s" for stage, s in self.seconds.items())
        lines = [
            f"plan {self.plan}; memory {self.memory}, at most {self.memory_peak_bytes:,} bytes",
            f"{self.prompt_tokens} prompt tokens, {self.new_tokens} new tokens, {self.steps} steps; {stages}",
            f"{'op':<16} {'calls':>7} {'seconds':>9} {'MB':>10}  implementation",
        ]
        for name, c in self.ops.items():
            lines.append(f"{name:<16} {c.calls:>7} {c.seconds:>9.3f} {c.bytes / 1e6:>10.1f}  {c.implementation}")
        return "\n".join(lines)
