"""A plan: one choice per optimization, resolved once into (ops, memory factory). Nothing reads it later."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from . import ops as signatures
from . import reference
from .errors import OptionError
from .memory.recompute import RecomputeMemory
from .memory.replicated import ReplicatedMemory

MEMORIES = {"none": RecomputeMemory, "replicated": ReplicatedMemory}


@dataclass(frozen=True)
class Plan:
    """Which implementation of each optimization runs.

    memory: "none" computes every token again at every step; "replicated" keeps keys and values, a copy per beam.
    """

    memory: str = "replicated"

    def __post_init__(self):
        if self.memory not in MEMORIES:
            raise OptionError(f"plan: memory={self.memory!r} is not one of {', '.join(MEMORIES)}")

    @classmethod
    def parse(cls, text: str | Plan) -> Plan:
        """From "auto", or choices such as "memory=none", separated by commas. Raises OptionError on anything else."""
        if isinstance(text, Plan):
            return text
        if not isinstance(text, str):
            raise OptionError(f"plan must be a text such as 'memory=none', or a Plan, not {text!r}")
        choices = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            name, equals, value = part.partition("=")
            if part == "auto":
                continue
            if not equals or name not in {f.name for f in dataclasses.fields(cls)} or name in choices:
                memories = " or ".join(f"memory={m}" for m in MEMORIES)
                raise OptionError(f"plan: {part!r} is not understood; say auto, {memories}, each choice once")
            choices[name] = value
        return cls(**choices)

    def resolve(self) -> tuple[dict[str, Callable[..., Any]], type]:
        """The functions that will run, by op name, and the class that makes a layer's memory."""
        return backend(reference), MEMORIES[self.memory]

    def __str__(self) -> str:
        return ",".join(f"{f.name}={getattr(self, f.name)}" for f in dataclasses.fields(self))


def op_names() -> list[str]:
    """The ops, in the order of ops.py."""
    functions = inspect.getmembers(signatures, inspect.isfunction)
    names = [name for name, f in functions if f.__module__ == signatures.__name__ and name != "returns"]
    return sorted(names, key=lambda name: getattr(signatures, name).__code__.co_firstlineno)


@functools.cache
def homes(package) -> dict[str, ModuleType]:
    """The file of each op in a backend: the one that defines it, not one that imports it from there."""
    names, found = op_names(), {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for name in names:
            if getattr(vars(module).get(name), "__module__", None) == module.__name__:
                found[name] = module
    return found


def backend(package) -> dict[str, Callable[..., Any]]:
    """The ops that a backend's files define, looked up afresh, so that what is rebound there is what runs."""
    return {name: vars(module)[name] for name, module in homes(package).items()}


homes(reference)  # before anyone can rebind an op
