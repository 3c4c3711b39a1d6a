"""What Numba's compiler would say of a CUDA kernel, without CUDA: its type inference needs neither GPU nor toolkit.

Refused, with the line: what the compiler would refuse (a dict, a list, a shared array whose size is known at run time).
Warned of, with the line: double precision by accident, which a GPU pays for dearly. In Numba a Python number such as
0.5 is float64, float32 * 0.5 is float64, float32 / int64 too, and int32 + int32 is int64; NumPy scalars, with which the
emulator computes, stay narrow, so only this check sees it.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import textwrap
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from ..device.arrays import why_kernels_do_not_compile
from ..errors import OptionError


@dataclass(frozen=True)
class TypeNote:
    """One remark. kind "error": the compiler refuses the kernel; "warning": it computes in double precision."""

    kind: Literal["error", "warning"]
    line: int | None
    message: str

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}: "
        return f"{self.kind}: {place}{self.message}"


def check_types(kernel: Callable[..., Any], argument_types: tuple) -> list[TypeNote]:
    """Runs type inference on a kernel (or a plain function written like one) for Numba types of its arguments."""
    from numba.core.errors import NumbaError

    function = getattr(kernel, "py_func", kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of experimental features and of the target's age
        try:
            ir, types, returned, calls = _infer_types(function, argument_types)
        except NumbaError as error:
            return [TypeNote("error", _line_of_numba_error(error, function), _first_reason(error, function))]
    refused = _notes_on_lowering(ir, types, returned)
    if refused or _is_double_on_purpose(argument_types):
        return refused
    return sorted({*_notes_on_float64_arguments(function, argument_types), *_notes_on_doubles(ir, types, calls, set())},
                  key=lambda note: (note.line or 0, note.message))  # fmt: skip


def narrow_indices(kernel: Callable[..., Any], argument_types: tuple) -> list[TypeNote]:
    """Lines of a kernel where an array that it is given is indexed by an integer of fewer than 32 bits.

    None of one that has no types: `check_types` says why.
    """
    from numba.core import ir as nodes
    from numba.core import types as t
    from numba.core.errors import NumbaError

    function, notes = getattr(kernel, "py_func", kernel), []
    try:
        ir, types, _, _ = _infer_types(function, argument_types)
    except NumbaError:
        return []
    given = {s.target.name for s in _assignments_of_ir(ir) if isinstance(s.value, nodes.Arg)}
    for statement in (s for block in ir.blocks.values() for s in block.body):
        place = statement.value if isinstance(statement, nodes.Assign) else statement
        is_read = isinstance(place, nodes.Expr) and place.op == "getitem"
        if not is_read and not isinstance(place, nodes.SetItem):
            continue
        if (place.value if is_read else place.target).name not in given:
            continue
        kind = types[place.index.name]
        for part in kind if isinstance(kind, t.BaseTuple) else [kind]:
            if isinstance(part, t.Integer) and part.bitwidth < 32:
                message = f"an index is {part}, which counts to {part.maxval:,}: use int32 or int64"
                notes.append(TypeNote("error", statement.loc.line, message))
    return notes


def _infer_types(function, argument_types):
    """(Numba's intermediate representation, variable -> type, return type, call -> signature)."""
    from numba.core.compiler import run_frontend
    from numba.core.ssa import reconstruct_ssa
    from numba.core.target_extension import target_override
    from numba.core.typed_passes import type_inference_stage
    from numba.cuda.descriptor import cuda_target

    if unfit := why_kernels_do_not_compile():
        raise OptionError(f"kernels cannot be typed: {unfit}")
    typing, target = cuda_target.typing_context, cuda_target.target_context
    typing.refresh()
    target.refresh()
    ir = reconstruct_ssa(run_frontend(function))  # `n = SIZE; n = n // 2` are two variables, as to the compiler
    with pretend_gpu(), target_override("cuda"):
        inferred = type_inference_stage(typing, target, ir, argument_types, None)
        return ir, inferred.typemap, inferred.return_type, inferred.calltypes


@contextmanager
def pretend_gpu(capability: tuple[int, int] = (8, 0)):
    """Lets device functions be typed without a GPU.

    They ask the current device for its compute capability: here is an answer. And where numba-cuda is not installed,
    numba's own CUDA target hands the arguments of min(a, b) and max(a, b), which Numba writes as f(*args), over one by
    one: here they are folded as the CPU's dispatcher folds them.
    """
    from numba.core import types as t
    from numba.core.typing.templates import fold_arguments
    from numba.cuda import dispatcher

    class Device:
        compute_capability = capability

    cls = dispatcher.CUDADispatcher
    ask_device, ask_template = dispatcher.get_current_device, cls.get_call_template

    def fold_arguments_of_kernel(self, args, kws):
        folded = fold_arguments(
            inspect.signature(self.py_func), args, kws,
            normal_handler=lambda index, parameter, value: value,
            default_handler=lambda index, parameter, default: t.Omitted(default),
            stararg_handler=lambda index, parameter, values: t.StarArgTuple(values),
        )  # fmt: skip
        return ask_template(self, folded, {})

    dispatcher.get_current_device, cls.get_call_template = (lambda: Device), fold_arguments_of_kernel
    try:
        yield
    finally:
        dispatcher.get_current_device, cls.get_call_template = ask_device, ask_template


def _notes_on_lowering(ir, types, returned) -> list[TypeNote]:
    """What inference lets pass and the CUDA backend cannot lower: a result, containers of the host, whole arrays."""
    from numba.core import ir as nodes
    from numba.core import types as t

    if returned != t.none:
        statements = [s for block in ir.blocks.values() for s in block.body if isinstance(s, nodes.Return)]
        values = [s for s in statements if types.get(s.value.name) != t.none] or statements
        return [TypeNote("error", values[0].loc.line, "a kernel returns nothing: write the result into an array")]
    host = (t.DictType, t.ListType, t.List, t.Set)
    for statement in _assignments_of_ir(ir):
        kind = types.get(statement.target.name)
        if isinstance(kind, host):
            what = type(kind).__name__.removesuffix("Type").lower()
            return [TypeNote("error", statement.loc.line, f"a {what} cannot live on a GPU: use an array of fixed size")]
    for block in ir.blocks.values():
        for s in block.body:
            if isinstance(s, nodes.SetItem | nodes.StaticSetItem) and isinstance(types.get(s.value.name), t.Array):
                return [
                    TypeNote("error", s.loc.line, "a whole array is assigned: assign element by element, in a loop")
                ]
    return []


def _is_double_on_purpose(argument_types) -> bool:
    """Whether an array of float64 is handed in. A number alone is more often an accident."""
    from numba.core import types as t

    return any(getattr(a, "dtype", None) in (t.float64, t.complex128) for a in argument_types)


def _notes_on_float64_arguments(function, argument_types) -> list[TypeNote]:
    from numba.core import types as t

    names, line = list(inspect.signature(function).parameters), inspect.getsourcelines(function)[1]
    return [
        TypeNote("warning", line, f"{name} is float64 and makes float64 of what it meets: pass np.float32({name})")
        for name, kind in zip(names, argument_types, strict=False) if kind == t.float64
    ]  # fmt: skip


def _notes_on_doubles(ir, types, calls, seen: set) -> list[TypeNote]:
    """Lines where a computed value is float64, in the kernel and in the device functions that it calls."""
    from numba.core import ir as nodes
    from numba.core import types as t

    notes = {}
    for statement in _assignments_of_ir(ir):
        value = statement.value
        is_value = isinstance(value, nodes.Expr) and value.op in ("binop", "inplace_binop", "call")
        is_number = isinstance(value, nodes.Const) and not statement.target.name.startswith("$")
        kind = types.get(statement.target.name)
        if kind in (t.float64, t.complex128) and (is_value or is_number):
            line = statement.loc.line
            source = linecache.getline(ir.func_id.filename, line).strip()
            notes[line] = TypeNote("warning", line, f"this is computed in float64: {source}")
    inner = []
    for expression, signature in calls.items():
        if not isinstance(expression, nodes.Expr) or expression.op != "call":
            continue
        callee = types.get(expression.func.name)
        inside = getattr(getattr(callee, "dispatcher", None), "py_func", None)
        if inside is None or (inside, signature.args) in seen or inside.__module__.startswith("numba"):
            continue
        seen.add((inside, signature.args))
        ir_inside, types_inside, _, calls_inside = _infer_types(inside, signature.args)
        inner += _notes_on_doubles(ir_inside, types_inside, calls_inside, seen)
    return [*notes.values(), *inner]


def _assignments_of_ir(ir):
    from numba.core import ir as nodes

    return [s for block in ir.blocks.values() for s in block.body if isinstance(s, nodes.Assign)]


def _line_of_numba_error(error, function) -> int | None:
    """The line that Numba names, or the first of the function."""
    location = getattr(error, "loc", None)
    return location.line if location is not None else inspect.getsourcelines(function)[1]


def _first_reason(error, function) -> str:
    """The error in one sentence: in our words for a few common mistakes, else Numba's first line."""
    text = re.sub(r"\x1b\[\d*m", "", str(error))
    for pattern, words in COMMON.items():
        if re.search(pattern, text):
            return words + (_remedy_for_shape(function) if words is SHAPE else "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    useful = [x for x in lines if not x.startswith(("Failed in", "During", "File ", "There are", ">>>", "- ", "This "))]
    return useful[0] if useful else text


def _remedy_for_shape(function) -> str:
    """The first shape that is computed from constants of the file, and where to compute it."""
    tree = ast.parse(textwrap.dedent("".join(inspect.getsourcelines(function)[0])))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func).endswith(ARRAYS)]
    for shape in [given for call in calls for given in [*call.args[:1], *(k.value for k in call.keywords)]]:
        for size in shape.elts if isinstance(shape, ast.Tuple) else [shape]:
            names = {n.id for n in ast.walk(size) if isinstance(n, ast.Name)}
            if isinstance(size, ast.BinOp) and names <= set(function.__globals__):
                text, name = ast.unparse(size), "PITCH" if isinstance(shape, ast.Tuple) else "SIZE"
                return f". {text} is computed: write {name} = {text} above the kernel, and {name} in the shape"
    return ""


ARRAYS = ("shared.array", "local.array")
SHAPE = (
    "the shape of a shared or local array must be a number known when the kernel is compiled: a number as it is, or a"
    " constant of the file, neither computed in the kernel nor handed to it"
)
COMMON = {
    r"function (shared|local)\.array": SHAPE,
    r"of type list|LiteralList|ListType": "a list cannot live on a GPU: use an array of fixed size",
    r"DictType|type dict": "a dict cannot live on a GPU: use an array of fixed size",
    r"make_function": "a comprehension or a function inside of a kernel: write a loop, or a device function beside it",
    r"syncthreads_(count|and|or)": (
        "cuda.syncthreads_count, _and and _or take an integer, no bool and no float: write int32(...) around it"
    ),
    r"of type set|type set\(": "a set cannot live on a GPU: use an array of fixed size",
}
