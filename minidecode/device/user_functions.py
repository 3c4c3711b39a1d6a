"""Functions of the user, named as FILE:FUNCTION: to be checked, or to run in place of an op."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .. import dims
from .. import ops as signatures
from ..errors import InputError, OptionError
from .low_precision import unpack_panels


def load_python_file(path: Path) -> ModuleType:
    """A Python file as a module, which may import its neighbours. Raises InputError if it cannot be run."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    _make_importable_from(path.parent)
    is_new = path.stem not in sys.modules
    if is_new:  # dataclasses look their module up while it runs
        sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(f"{path} cannot be run: {type(error).__name__}: {error}") from None
    finally:
        if is_new:
            del sys.modules[path.stem]
    return module


def find_function(place: str, preferred: str = "") -> Callable[..., Any]:
    """The function that "my_file.py:ban" or "package.module:ban" names. Raises InputError if there is none.

    "my_file.py" alone names its only function, or of several the preferred one.
    """
    if place.endswith(".py"):
        return _only_function(place, preferred)
    where, colon, name = place.rpartition(":")
    if not colon or not where or not name:
        raise InputError(f"name the function as FILE.py:FUNCTION, not {place!r}")
    if where.endswith(".py"):
        module = load_python_file(Path(where))
    elif not all(part.isidentifier() for part in where.split(".")):
        raise InputError(
            f"{where} is neither a Python file (FILE.py) nor a module: name the function as FILE.py:FUNCTION"
        )
    else:
        _make_importable_from(Path())
        try:
            module = importlib.import_module(where)
        except ImportError as error:
            raise InputError(f"{where} cannot be imported: {error}") from None
        except (Exception, SystemExit) as error:
            raise InputError(f"{where} cannot be run: {type(error).__name__}: {error}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"{where} has no function {name!r}: it has {', '.join(_functions_of(module)) or 'none'}")
    return function


def _only_function(file: str, name: str) -> Callable[..., Any]:
    module = load_python_file(Path(file))
    functions = _functions_of(module)
    chosen = functions[0] if len(functions) == 1 else name
    if not functions:
        raise InputError(f"{file} defines no function: name the function as FILE.py:FUNCTION")
    if chosen not in functions:
        raise InputError(f"{file} has {', '.join(functions)}: name one of them, as in {file}:{functions[0]}")
    return getattr(module, chosen)


def _functions_of(module: ModuleType) -> list[str]:
    """The names of the functions that a module defines itself, but for those that begin with _."""
    functions = {n: v for n, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__}
    return [n for n, v in functions.items() if callable(v) and not n.startswith("_")]


def _make_importable_from(folder: Path) -> None:
    """Puts the folder on sys.path: its modules can be imported, as if Python had been started there."""
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)


def describe_function(function: Callable[..., Any]) -> str:
    """Name and place of the code that runs; a wrapper that borrows another function's name is seen by its place."""
    if type(function).__module__.partition(".")[0] == "minidecode":  # UserOp, InEmulator; a function of a user's is not
        function = function.stands_for
    code = getattr(function, "__code__", None)
    place = f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else ""
    if not hasattr(function, "__qualname__"):  # a partial, or an object that can be called
        return f"{type(function).__module__}.{type(function).__qualname__} object"
    return f"{function.__module__}.{function.__qualname__}{place}"


def op_signature(op: str) -> str:
    """What an op is given, as it is written: ban_ngrams(scores_RV, tokens_RM, length_R, n)."""
    return f"{op}({', '.join(n for n in inspect.signature(getattr(signatures, op)).parameters if n != 'out')})"


def describe_other_parameters(
    function: Callable[..., Any], op: str, arguments: tuple, named: Iterable[str] = ()
) -> str:
    """Why a user's function cannot be called as the op is, in words; "" if it can."""
    try:
        parameters = inspect.signature(function)
    except (TypeError, ValueError):  # a function without a signature
        return ""
    try:
        parameters.bind(*arguments, **dict.fromkeys(named))
    except TypeError:
        return f"takes {parameters}; give it the parameters of {op_signature(op)}"
    return ""


class UserOp:
    """A user's function in place of an op: its exceptions and wrong shapes are reported as its own mistakes."""

    def __init__(self, op: str, place: str):
        self.op, self.place, self.stands_for = op, place, find_function(place)
        self._parameters = list(inspect.signature(getattr(signatures, op)).parameters)

    def __call__(self, *args, **kwargs):
        try:
            result = self.stands_for(*map(_unpack_if_weight, args), **kwargs)
        except (Exception, SystemExit) as error:
            what = describe_other_parameters(self.stands_for, self.op, args, kwargs) or error_line(error)
            raise OptionError(f"{self.place}, run as {self.op}, {what}") from error
        names = signatures.RETURNS[self.op]
        results = result if len(names) > 1 and isinstance(result, tuple) else (result,)
        wrong = [r for r in results if not hasattr(r, "shape")]
        if len(results) != len(names) or wrong:
            raise OptionError(f"{self.place}, run as {self.op}, must return {' and '.join(names)}, not {result!r:.60}")
        try:
            sizes = dims.unify(list(zip(self._parameters, args, strict=False)))
            dims.unify(list(zip(names, results, strict=True)), sizes)
        except ValueError as error:
            raise OptionError(f"{self.place}, run as {self.op}, returned a wrong shape: {error}") from None
        for name, mine in zip(names, results, strict=True):
            due = dtype_of_result(name, args)
            if mine.dtype != due:
                raise OptionError(f"{self.place}, run as {self.op}, returned {name} in {mine.dtype} where {due} is due")
        return result


def _unpack_if_weight(argument: Any) -> Any:
    """A packed weight with its outputs in rows again; anything else as it is."""
    return unpack_panels(argument) if isinstance(argument, signatures.Weight) else argument


class FunctionError(OptionError):
    """A user's function, given as an option, raised an exception, which is `__cause__`."""


def call_user_option(option: str, signature: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The user's function, given as an option. Raises FunctionError, with the way it is called, where it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        raise FunctionError(f"{option}, called as {signature}, raised {type(error).__name__}: {error}") from error


def dtype_of_result(name: str, args: tuple) -> np.dtype:
    """What a result of this name is; floats are as those that are handed in, and float64 where there are none."""
    if name in signatures.WHOLE or name in signatures.TRUTHS:
        return np.dtype(np.int64 if name in signatures.WHOLE else np.bool_)
    return next((a.dtype for a in args if getattr(a, "dtype", np.dtype(int)).kind == "f"), np.dtype(np.float64))


def error_line(error: BaseException) -> str:
    """The exception of a user's function, on one line, with the remedy where there is a usual one."""
    first = (str(error).strip().splitlines() or [""])[0]
    if type(error).__name__ == "CudaSupportError":
        first += (
            ". There is no GPU here: launch kernels by minidecode.launch(kernel, grid, block, *arrays),"
            " which takes the emulator then"
        )
    return f"raised {type(error).__name__}: {first}"
