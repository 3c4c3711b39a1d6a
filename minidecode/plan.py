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
from .catalog import CATALOG, Row
from .device import device_kind
from .errors import OptionError
from .launch import InEmulator
from .memory.el import ElMemory, SplitBesideEl
from .memory.indirect import IndirectMemory
from .memory.preallocated import PreallocatedMemory
from .memory.recompute import RecomputeMemory
from .memory.replicated import ReplicatedMemory
from .memory.rolling import RollingMemory
from .memory.split import SplitMemory
from .user_functions import UserOp

MEMORIES = {
    "none": RecomputeMemory,
    "replicated": ReplicatedMemory,
    "preallocated": PreallocatedMemory,
    "split": SplitMemory,
    "indirect": IndirectMemory,
    "rolling": RollingMemory,
    "el": ElMemory,
}
BESIDE_SOURCE = MEMORIES | {"el": SplitBesideEl}  # of a decoder that also sees what an encoder made of a source


BACKENDS = ("reference", "naive", "cpu", "cuda", "emulator")
ARENAS = ("none", "separate", "planned")


@dataclass(frozen=True)
class Plan:
    """Which implementation of each optimization runs.

    memory: "none" computes every token again at every step; "replicated" keeps keys and values, a copy per beam, in
    arrays that grow; "preallocated" the same in arrays with room; "split" keeps a sentence's prompt (and source) once;
    "indirect" does too, and moves a table instead of keys and values when beams change places; "rolling" keeps the
    last positions alone, for a model with an attention_window; "el" keeps, in the place of the keys and values of a
    prompt or a source, the hidden states that they are made from.
    arena: "none" lets every op of a step find room for itself; "planned" gives all that a step makes its place in one
    buffer, those that no call needs together sharing it (LightSeq, section 2.3); "separate" gives each a buffer.
    The others are rows of the catalog: "reference", "naive" (both NumPy), "cpu" (Numba), "cuda" (needs a GPU),
    "emulator" (the same kernel thread by thread, which is slow), or a function of yours as FILE.py:FUNCTION.
    hars is "off" by default. Otherwise beam search takes candidates straight from the logits at the steps at which the
    options touch no score on its way: the receipt counts those as search_candidates, the others as top_candidates.
    Options that leave no such step are refused. A search with one row per text has no candidates.
    """

    memory: str = "replicated"
    arena: str = "none"
    ngram: str = "reference"
    linear: str = "reference"
    norm: str = "reference"
    heads: str = "reference"
    append: str = "reference"
    within: str = "reference"
    embedding: str = "reference"
    activation: str = "reference"
    split: str = "reference"
    shared: str = "reference"
    grouped: str = "reference"
    reorder: str = "reference"
    indirect: str = "reference"
    redirect: str = "reference"
    refresh: str = "reference"
    advance: str = "reference"
    finish: str = "reference"
    choose: str = "reference"
    rolling: str = "reference"
    el: str = "reference"
    el_split: str = "reference"
    candidates: str = "reference"
    hars: str = "off"
    top_k: str = "reference"
    top_p: str = "reference"
    draw: str = "reference"

    def __post_init__(self):
        if self.memory not in MEMORIES:
            raise OptionError(f"plan: memory={self.memory!r} is not one of {', '.join(MEMORIES)}")
        if self.arena not in ARENAS:
            raise OptionError(f"plan: arena={self.arena!r} is not one of {', '.join(ARENAS)}")
        for row in CATALOG.values():
            choice, choices = getattr(self, row.name), ("off", *BACKENDS) if row.may_be_off else BACKENDS
            if not isinstance(choice, str) or not (choice in choices or ":" in choice):
                raise OptionError(f"plan: {row.name}={choice!r} is not one of {', '.join(choices)} or FILE.py:FUNCTION")
            if choice != "reference" and not any(row.called_by(self.memory, kind) for kind in (False, True)):
                say = " or ".join(f"memory={m}" for m in MEMORIES if row.called_by(m, False) or row.called_by(m, True))
                raise OptionError(f"plan: {row.name}={choice} has no effect with memory={self.memory}: say {say}")

    @classmethod
    def parse(cls, text: str | Plan) -> Plan:
        """From "auto", or choices such as "memory=none,ngram=cpu", separated by commas. Raises OptionError."""
        if isinstance(text, Plan):
            return text
        if not isinstance(text, str):
            raise OptionError(f"plan must be a text such as 'memory=none', or a Plan, not {text!r}")
        names, choices = [f.name for f in dataclasses.fields(cls)], {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            name, equals, value = part.partition("=")
            if part == "auto":
                continue
            if not equals or name not in names or name in choices:
                known = ", ".join(f"{name}=..." for name in names)
                raise OptionError(f"plan: {part!r} is not understood; say auto, or some of {known}, each once")
            choices[name] = value
        return cls(**choices)

    def resolve(self, has_encoder: bool = True) -> tuple[dict[str, Callable[..., Any]], type]:
        """The functions that will run, by op name, and the class that makes a layer's memory. What is off is not there.

        Raises OptionError if one of them cannot run here, or never would: a plan never falls back in silence.
        """
        functions = backend(reference)
        for row in CATALOG.values():
            choice = getattr(self, row.name)
            if not row.called_by(self.memory, has_encoder) and choice != "reference":
                where = f"with memory={self.memory} in a model {'with' if has_encoder else 'without'} an encoder"
                raise OptionError(f"plan: {row.name}={choice} has no effect {where}")
            if choice == "off":
                del functions[row.op]
            else:
                functions[row.op] = _implementation(row, choice)
        return functions, (BESIDE_SOURCE if has_encoder else MEMORIES)[self.memory]

    def __str__(self) -> str:
        """The memory, and what else is not as by default; `parse` reads it back."""
        fields = [f for f in dataclasses.fields(self) if f.name == "memory" or getattr(self, f.name) != f.default]
        return ",".join(f"{f.name}={getattr(self, f.name)}" for f in fields)


def _implementation(row: Row, choice: str) -> Callable[..., Any]:
    """The function of this name, looked up afresh, so that what is rebound is what runs."""
    if ":" in choice:
        return UserOp(row.op, choice)
    place = {"naive": "reference", "emulator": "cuda"}.get(choice, choice)
    if choice == "cuda" and device_kind() != "gpu":
        raise OptionError(f"plan: {row.name}=cuda needs a GPU, and Numba finds none; {row.name}=emulator needs none")
    try:
        module = importlib.import_module(f"minidecode.{place}.{row.name}")
    except ModuleNotFoundError:
        raise OptionError(f"plan: {row.name} has no version for {place}") from None
    function = vars(module)[f"{row.op}_naive" if choice == "naive" else row.op]
    return InEmulator(function) if choice == "emulator" else function


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
