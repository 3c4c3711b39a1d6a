"""A kernel's function, copied so that `cuda` and what it refers to are the emulator's; the original is unchanged."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from types import CellType, CodeType, FunctionType, ModuleType

import numpy as np

from .arithmetic import Mathematics, absolute, cast_for, is_numba_type, maximum, minimum
from .cuda_module import FakeCuda, Reader
from .source import with_marked_exits

BODIES: dict[int, tuple[object, Callable]] = {}  # id of an intrinsic -> (the intrinsic, its body in Python)
_MATHEMATICS = Mathematics()


def register_body(intrinsic: object) -> Callable[[Callable], Callable]:
    """Gives an `@intrinsic` (or any function without Python code) a body that the emulator runs in its place.

    @register_body(load4)
    def _(array, index):
        array.require_alignment(index, 16)  # stops where these 16 bytes do not begin at a multiple of 16
        return array[index], array[index + 1], array[index + 2], array[index + 3]
    """

    def register(body: Callable) -> Callable:
        BODIES[id(intrinsic)] = (intrinsic, body)
        return body

    return register


def python_function(kernel: object) -> FunctionType:
    """The plain function behind a `@cuda.jit` kernel, or the function itself."""
    function = getattr(kernel, "py_func", kernel)
    if not isinstance(function, FunctionType):
        raise TypeError(f"emulate() takes a kernel (@cuda.jit) or a plain function, not {type(kernel).__name__}")
    return function


class Binder:
    """Copies functions for one launch. `constant(array, name)` wraps arrays that the kernel closes over."""

    def __init__(self, cuda: FakeCuda, constant: Callable[[np.ndarray, str], object]):
        self._cuda, self._constant = cuda, constant
        self._copies: dict[object, FunctionType] = {}
        self.codes: set[CodeType] = set()  # of the copies; grows when a kernel asks a module for one more
        self._modules: dict[int, object] = {}
        self._stand_ins = _stand_ins(cuda)

    def bind(self, function: FunctionType, code: CodeType | None = None) -> FunctionType:
        """A copy of the function whose globals and closure are replaced, and those of all functions it calls."""
        if function in self._copies:
            return self._copies[function]
        names = dict(function.__globals__)
        cells = tuple(CellType() for _ in function.__closure__ or ()) or None
        copy = FunctionType(code or function.__code__, names, function.__name__, function.__defaults__, cells)
        copy.__kwdefaults__ = function.__kwdefaults__
        self._copies[function] = copy
        self.codes.add(copy.__code__)
        for name in _names_in(function.__code__):
            if name in names:
                names[name] = self.replace(names[name], name)
        names.setdefault("max", maximum)
        names.setdefault("min", minimum)
        names.setdefault("abs", absolute)
        for name, cell, old in zip(
            function.__code__.co_freevars, copy.__closure__ or (), function.__closure__ or (), strict=True
        ):
            cell.cell_contents = self.replace(old.cell_contents, name)
        return copy

    def replace(self, value: object, name: str) -> object:
        """What a kernel sees in place of this value."""
        if id(value) in BODIES:
            return self.bind(BODIES[id(value)][1])
        if id(value) in self._stand_ins:
            return self._stand_ins[id(value)]
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(getattr(value, "py_func", None), FunctionType):
            return self.bind(value.py_func)
        if isinstance(value, FunctionType):
            return value if _is_library_module(value.__module__) else self.bind(value)
        if isinstance(value, np.ndarray):
            return self._constant(value, name)
        if is_numba_type(value):
            return cast_for(value)
        return value

    def _module(self, module: ModuleType) -> object:
        if id(module) not in self._modules:
            plain = _is_library_module(module.__name__) and module.__name__.split(".")[0] not in ("numba", "numba_cuda")
            self._modules[id(module)] = module if plain else _ModuleView(self, module)
        return self._modules[id(module)]


class _ModuleView:
    """A module whose attributes are replaced when they are asked for."""

    def __init__(self, binder: Binder, module: ModuleType):
        self._binder, self._module = binder, module

    def __getattr__(self, name: str):
        value = self._binder.replace(getattr(self._module, name), name)
        setattr(self, name, value)
        return value


def _stand_ins(cuda: FakeCuda) -> dict[int, object]:
    """What stands in, by identity, for the real module and for each of its names that a kernel may have imported by
    itself.
    """
    stand_ins = dict(_mathematical_stand_ins())
    real = sys.modules.get("numba.cuda")
    if real is None:
        return stand_ins
    names = [n for n in dir(FakeCuda) if not n.startswith("_")] + [n for n in vars(cuda) if not n.startswith("_")]
    for name in names:
        if hasattr(real, name):
            is_index = name in ("threadIdx", "blockIdx", "laneid")
            stand_ins[id(getattr(real, name))] = Reader(cuda, name) if is_index else getattr(cuda, name)
    stand_ins[id(real)] = cuda
    return stand_ins


@cache
def _mathematical_stand_ins() -> dict[int, object]:
    """What of `_stand_ins` is the same in every launch."""
    stand_ins: dict[int, object] = {id(math): _MATHEMATICS, id(max): maximum, id(min): minimum}
    stand_ins |= {
        id(f): getattr(_MATHEMATICS, n) for n, f in vars(math).items() if callable(f) and not n.startswith("__")
    }
    return stand_ins


def _names_in(code: CodeType) -> set[str]:
    """Every global name that the code, and code nested in it, may ask for."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_in(constant)
    return names


def _is_library_module(module: str | None) -> bool:
    """Whether a module is Python's own, NumPy's or Numba's: nothing there is written like a kernel."""
    top = (module or "").split(".")[0]
    return top in sys.stdlib_module_names or top in ("numpy", "numba", "numba_cuda", "llvmlite", "builtins")


def code_with_marked_exits(function: FunctionType) -> CodeType:
    return with_marked_exits(function.__code__)
