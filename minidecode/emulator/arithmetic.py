"""Numbers inside a kernel: casts that wrap as a GPU's do, mathematics without Python's exceptions, bit functions."""

from __future__ import annotations

import math
import operator
import types

import numpy as np

from .findings import Finding, Stop
from .source import place_of_instruction, user_frame


def wrap_integer(value, dtype: np.dtype):
    """An integer too large for its type keeps its low bits, as in a register."""
    bits = 8 * dtype.itemsize
    return np.array(int(value) & ((1 << bits) - 1), np.uint64).astype(f"u{dtype.itemsize}").view(dtype)[()]


class Undefined:
    """What a shuffle gives where the lane asked is not there. It may be computed with, but never arrive anywhere.

    A GPU gives some number. A tree of shuffles over half a warp computes with such numbers in lanes whose results
    no code looks at, which is no mistake; storing one, indexing or branching by one is.
    """

    __slots__ = ("origin",)

    def __init__(self, origin: str):
        self.origin = origin

    def stop(self, use: str):
        frame = user_frame()
        place = place_of_instruction(frame.f_code, frame.f_lasti)
        message = f"{self.origin}; a GPU gives any number for it, and {use} ({place})"
        raise Stop(Finding("warp", message, [place]))

    def _identity(self, *_):
        return self

    def __bool__(self):
        self.stop("a branch depends on it")

    def __index__(self):
        self.stop("an index depends on it")

    def __int__(self):
        self.stop("an integer is made of it")

    __array_ufunc__ = None  # NumPy's scalars leave the arithmetic to this class
    __hash__ = None


for _name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"]:
    setattr(Undefined, f"__{_name}__", Undefined._identity)
    setattr(Undefined, f"__r{_name}__", Undefined._identity)
for _name in ["neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne", "round"]:
    setattr(Undefined, f"__{_name}__", Undefined._identity)


def _first_undefined(arguments):
    return next((a for a in arguments if type(a) is Undefined), None)


def maximum(*arguments):
    """Python's `max`, but an undefined number makes the result undefined."""
    return _first_undefined(arguments) if _has_undefined(arguments) else max(*arguments)


def minimum(*arguments):
    """Python's `min`, likewise."""
    return _first_undefined(arguments) if _has_undefined(arguments) else min(*arguments)


def absolute(x):
    """Python's `abs`."""
    return abs(x)


def _has_undefined(arguments) -> bool:
    return Undefined in map(type, arguments)


class Cast:
    """A Numba type inside a kernel: a dtype for arrays, and a cast that rounds, or wraps, as the GPU's does."""

    def __init__(self, dtype: np.dtype):
        self.dtype = np.dtype(dtype)
        self._type = bool if self.dtype.kind == "b" else self.dtype.type
        self._is_whole = self.dtype.kind in "iu"

    def __call__(self, value):
        if type(value) is self._type or type(value) is Undefined:
            return value
        if not self._is_whole:
            return self._type(value)
        value = int(value) if isinstance(value, float | np.floating) else value
        try:
            return self._type(value)
        except OverflowError:
            return wrap_integer(value, self.dtype)


def is_numba_type(value: object) -> bool:
    """Whether this is a type of Numba's, or of the numba-cuda package, which has classes of its own."""
    return any(c.__name__ == "Type" and c.__module__.startswith("numba") for c in type(value).__mro__)


def numba_dtype(numba_type) -> np.dtype:
    """The dtype of the same name: float32, int8, bool."""
    return np.dtype(numba_type.name)


def cast_for(numba_type) -> object:
    """What a kernel sees in place of a type; types that NumPy has not (tuples, pointers) stay as they are."""
    try:
        return Cast(numba_dtype(numba_type))
    except TypeError:
        return numba_type


class Mathematics:
    """The module `math` as a GPU has it: log(0) is -inf and sqrt(-1) is NaN; float32 in, float32 out."""

    def __init__(self):
        for name, value in vars(math).items():
            if not name.startswith("__"):
                setattr(self, name, _wrap_without_exceptions(name, value) if callable(value) else value)


_NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power",
                "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}  # fmt: skip
_WHOLE = {"floor", "ceil", "trunc", "gcd", "lcm", "isnan", "isinf", "isfinite", "comb", "perm", "isqrt", "factorial"}


def _wrap_without_exceptions(name: str, function):
    """The function, but without exceptions for arguments outside its domain."""
    fallback = getattr(np, _NUMPY_NAMES.get(name, name), None)

    def call(*arguments):
        if _has_undefined(arguments):
            return _first_undefined(arguments)
        try:
            result = function(*arguments)
        except (ValueError, OverflowError, ZeroDivisionError):
            if fallback is None:
                return math.nan
            result = fallback(*map(float, arguments))
        kind = type(arguments[0]) if arguments else float
        narrow = (kind is np.float32 or kind is np.float16) and name not in _WHOLE
        return kind(result) if narrow else result

    return call


def float_function(name: str):
    """A function of libdevice by its CUDA name (`sinf`, `rsqrt`, `fmaf`), or None where it is not known here."""
    for stem in (name, name.removesuffix("f"), name.removeprefix("fast_").removesuffix("f")):
        if stem in _OWN:
            return _OWN[stem]
        if callable(getattr(math, stem, None)):
            return _wrap_without_exceptions(stem, getattr(math, stem))
    return None


def popc(value) -> int:
    """How many bits are set."""
    return (int(value) & _low_bits(value)).bit_count()


def brev(value) -> int:
    """The bits in reverse."""
    width = _bits_of(value)
    return int(f"{int(value) & _low_bits(value):0{width}b}"[::-1], 2)


def clz(value) -> int:
    """The number of leading zero bits."""
    return _bits_of(value) - (int(value) & _low_bits(value)).bit_length()


def ffs(value) -> int:
    """The place of the lowest bit that is set, counted from 1; 0 if none is."""
    value = int(value) & _low_bits(value)
    return (value & -value).bit_length()


def _bits_of(value) -> int:
    """64 bits for 64-bit scalars that say so and for numbers that need it; 32 for the rest, as Numba's literals."""
    if isinstance(value, np.integer) and value.dtype.itemsize < 8:
        return 32
    return 32 if -(1 << 31) <= int(value) < 1 << 32 else 64


def _low_bits(value) -> int:
    return (1 << _bits_of(value)) - 1


def fma(a, b, c):
    """a * b + c, rounded once."""
    exact = float(a) * float(b) + float(c)
    return np.result_type(a, b, c).type(exact) if isinstance(a, np.generic) else exact


def cbrt(a):
    root = np.cbrt(float(a))
    return type(a)(root) if isinstance(a, np.floating) else float(root)


def selp(choice, a, b):
    """a if choice else b, without a branch."""
    return a if choice else b


def _keep_precision(function):
    return lambda *a: type(a[0])(function(*a)) if isinstance(a[0], np.floating) else function(*a)


_OWN = {
    "rsqrt": _keep_precision(lambda x: 1 / np.sqrt(float(x))),
    "fma": fma, "cbrt": cbrt, "popc": popc, "clz": clz, "ffs": ffs, "brev": brev,
    "fmin": minimum, "fmax": maximum, "min": minimum, "max": maximum, "abs": abs, "fabs": abs,
    "tanh": _wrap_without_exceptions("tanh", math.tanh), "exp10": _keep_precision(lambda x: np.power(10.0, float(x))),
    "rint": _keep_precision(lambda x: np.rint(float(x))), "rcp": _keep_precision(lambda x: 1 / np.float64(x)),
    "fdivide": operator.truediv, "saturate": _keep_precision(lambda x: min(max(float(x), 0.0), 1.0)),
}  # fmt: skip


def half_functions() -> types.SimpleNamespace:
    """`cuda.fp16`: arithmetic on float16, rounded after every operation."""
    half = np.float16
    one = {"neg": operator.neg, "abs": abs, "sin": np.sin, "cos": np.cos, "log": np.log, "log2": np.log2,
           "log10": np.log10, "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "sqrt": np.sqrt,
           "rsqrt": lambda x: 1 / np.sqrt(x), "ceil": np.ceil, "floor": np.floor, "rcp": lambda x: 1 / x,
           "trunc": np.trunc, "rint": np.rint}  # fmt: skip
    two = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
           "max": max, "min": min}  # fmt: skip
    functions = {f"h{n}": lambda x, f=f: half(f(np.float32(x))) for n, f in one.items()}
    functions |= {f"h{n}": lambda a, b, f=f: half(f(np.float32(a), np.float32(b))) for n, f in two.items()}
    functions |= {f"h{n}": getattr(operator, n) for n in ("eq", "ne", "ge", "gt", "le", "lt")}
    functions["hfma"] = lambda a, b, c: half(np.float64(a) * np.float64(b) + np.float64(c))
    return types.SimpleNamespace(**functions)


def numpy_dtype_of(dtype) -> np.dtype:
    """From a NumPy dtype, a Numba type, or what stands for one inside a kernel."""
    if isinstance(dtype, Cast):
        return dtype.dtype
    return numba_dtype(dtype) if is_numba_type(dtype) else np.dtype(dtype)
