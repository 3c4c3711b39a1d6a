"""Kernels taken out of a student's file as data, and held to a list of what a kernel may say.

What is on the list reaches arithmetic, arrays and `cuda`, and nothing else: no attribute with an underscore, no
import, no function of Python's but a few. So a kernel can be run in a process that counts what it does, and cannot
get at the counters. All other statements of the file are left out, not run.
"""

from __future__ import annotations

import ast
import linecache
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_CHARACTERS = 100_000
TYPES = (
    "bool_", "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
    "float64",
)  # fmt: skip
NUMPY = (*TYPES, "inf", "nan", "pi", "e", "finfo", "iinfo")
WITHIN_CUDA = (
    *(f"{name}.{axis}" for name in ("threadIdx", "blockIdx", "blockDim", "gridDim") for axis in "xyz"),
    "grid", "gridsize", "laneid", "warpsize", "syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or",
    "syncwarp", "threadfence", "threadfence_block", "threadfence_system", "shared.array", "local.array",
    "shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "ballot_sync", "all_sync", "any_sync", "eq_sync",
    "match_any_sync", "match_all_sync", "activemask", "lanemask_lt", "popc", "brev", "clz", "ffs", "fma", "cbrt",
    "selp",
    *(f"atomic.{name}" for name in ("add", "sub", "min", "max", "nanmin", "nanmax", "inc", "dec", "exch", "and_", "or_",
                                    "xor", "cas", "compare_and_swap")),
)  # fmt: skip
OF_AN_ARRAY = ("shape", "size", "ndim", "itemsize", "dtype", "max", "min", "eps", "x", "y", "z")
BUILTINS = {f.__name__: f for f in (range, min, max, abs, int, float, bool, len, round, divmod, pow, enumerate, zip)}
NODES = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While,
    ast.If, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare,
    ast.Call, ast.keyword, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.Tuple, ast.NamedExpr,
    ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
IN_WORDS = {
    "Import": "an import", "ImportFrom": "an import", "Lambda": "a lambda", "ListComp": "a comprehension",
    "List": "a list", "Dict": "a dict", "Set": "a set", "Try": "a try", "With": "a with", "Global": "a global",
    "Raise": "a raise", "JoinedStr": "a text", "Assert": "an assert", "Starred": "a star", "ClassDef": "a class",
}  # fmt: skip


class Refused(Exception):  # noqa: N818 (it is an outcome)
    """A file from which no kernel can be taken. mistake: "not-started", "cannot-run" or "forbidden"."""

    def __init__(self, mistake: str, message: str):
        super().__init__(message)
        self.mistake, self.message = mistake, message


@dataclass
class Taken:
    """What was taken out: name -> kernel or plain function, with nothing around them but what the list allows.

    waits: line -> "syncthreads", "syncwarp" and their like; written: array -> the lines that write into it.
    """

    functions: dict[str, Any]
    waits: dict[int, str]
    written: dict[str, list[int]]


def parse_kernel_file(source: str, file: str) -> ast.Module:
    """Raises Refused with the line where the source is no Python."""
    if len(source) > MOST_CHARACTERS:
        raise Refused("forbidden", f"{file} has {len(source):,} characters; an exercise needs no more than 100,000")
    try:
        return ast.parse(source, file)
    except SyntaxError as error:
        raise Refused("cannot-run", f"line {error.lineno}: this is no Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Refused("cannot-run", f"{file} cannot be read: {type(error).__name__}") from None


def take_kernel(source: str, file: str, kernel: str, plain: list[str]) -> Taken:
    """The kernel, the device functions beside it, the plain functions of these names, and the constants they use."""
    tree = parse_kernel_file(source, file)
    names = _imported_names(tree)
    kept: list[ast.stmt] = []
    constants: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and (_is_kernel(statement, names) or statement.name in plain):
            kept.append(statement)
        elif _is_constant(statement, names, constants):
            constants.add(statement.targets[0].id)
            kept.append(statement)
    defined = {s.name: s for s in kept if isinstance(s, ast.FunctionDef)}
    if kernel not in defined or not defined[kernel].decorator_list:
        raise Refused("cannot-run", _why_no_kernel(tree, file, kernel))
    for name in plain:
        if name not in defined:
            raise Refused("cannot-run", f"there is no function {name} in {file}")
    for function in defined.values():
        _Judge(names, constants | set(defined)).function(function)
    waits, written = _barriers_and_writes(kept)
    return Taken(_define_functions(kept, source, file, names), waits, written)


def _why_no_kernel(tree: ast.Module, file: str, kernel: str) -> str:
    """Whether there is no such function, or one that is no kernel."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == kernel:
            return (
                f"line {statement.lineno}: {kernel} is a function and no kernel yet: above a kernel stands @cuda.jit"
                " alone, and at the file's top `from numba import cuda`"
            )
    return f"there is no function {kernel} in {file}: it is the kernel that is judged"


def _barriers_and_writes(kept: list[ast.stmt]) -> tuple[dict[int, str], dict[str, list[int]]]:
    """(line -> barrier at which threads wait, array -> lines that write it)."""
    waits: dict[int, str] = {}
    written: dict[str, list[int]] = {}
    for node in (inner for statement in kept for inner in ast.walk(statement)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("sync"):
            waits[node.lineno] = node.attr
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            written.setdefault(node.value.id, []).append(node.lineno)
    return waits, written


def _imported_names(tree: ast.Module) -> dict[str, Any]:
    """Names of the file that stand for `cuda`, `math`, NumPy and Numba's types; other imports mean nothing here."""
    from numba import cuda, types

    roots = {"numba.cuda": cuda, "math": math, "numpy": np}
    imported: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for a in statement.names:
                if a.name in roots and (a.asname or "." not in a.name):
                    imported[a.asname or a.name] = roots[a.name]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            for a in statement.names:
                whole, name = f"{statement.module}.{a.name}", a.asname or a.name
                if whole in roots:
                    imported[name] = roots[whole]
                elif statement.module == "numba" and a.name in TYPES:
                    imported[name] = getattr(types, a.name)
                elif statement.module == "math" and not a.name.startswith("_") and hasattr(math, a.name):
                    imported[name] = getattr(math, a.name)
    return imported


def _is_kernel(function: ast.FunctionDef, names: dict[str, Any]) -> bool:
    """Decorated by @cuda.jit alone, or by @cuda.jit(device=True) and its like."""
    if len(function.decorator_list) != 1:
        return False
    decorator = function.decorator_list[0]
    callee = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(decorator, ast.Call) and (
        decorator.args or not all(k.arg in ("device", "inline", "fastmath") and isinstance(k.value, ast.Constant)
                                  for k in decorator.keywords)
    ):  # fmt: skip
        return False
    is_cuda = isinstance(callee, ast.Attribute) and callee.attr == "jit" and isinstance(callee.value, ast.Name)
    return is_cuda and _dotted_root(names, callee.value.id) == "cuda"


def _dotted_root(names: dict[str, Any], name: str) -> str | None:
    module = names.get(name)
    return {"numba.cuda": "cuda", "math": "math", "numpy": "numpy"}.get(getattr(module, "__name__", ""))


def _is_constant(statement: ast.stmt, names: dict[str, Any], constants: set[str]) -> bool:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or target.id.startswith("_") or target.id in names:
        return False
    try:
        _Judge(names, constants).expression(statement.value)
    except Refused:
        return False
    return True


class _Judge(ast.NodeVisitor):
    """Raises Refused at the first thing that is not on the list."""

    def __init__(self, names: dict[str, Any], known: set[str]):
        self._names, self._known = names, {*known, *names, *BUILTINS}

    def function(self, function: ast.FunctionDef) -> None:
        a = function.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs or a.defaults or a.kw_defaults:
            self._refuse(function, "a kernel's parameters are plain names")
        local = {n.arg for n in a.args}
        local |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for name in sorted(local):
            if name in self._names:
                self._refuse(function, f"{name} is the name of an import: call your variable otherwise")
        self._known |= local
        for statement in function.body:
            self.visit(statement)

    def expression(self, expression: ast.expr) -> None:
        self.visit(expression)

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, NODES) or isinstance(node, ast.FunctionDef):
            kind = type(node).__name__
            self._refuse(node, f"{IN_WORDS.get(kind, kind)} has no place in a kernel")
        super().generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(raised, ast.Name) and raised.id == "NotImplementedError":
            raise Refused("not-started", f"line {node.lineno} still raises NotImplementedError")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, int | float | bool | str | type(None)):
            self._refuse(node, f"{node.value!r} has no place in a kernel")

    def visit_Name(self, node: ast.Name) -> None:
        if "__" in node.id:
            self._refuse(node, f"{node.id} has no place in a kernel")
        if node.id not in self._known:
            self._refuse(node, f"{node.id} is not known there: a kernel is judged with cuda, math, numbers of NumPy and"
                         " the constants of your file alone")  # fmt: skip
        root = _dotted_root(self._names, node.id)
        if root and isinstance(node.ctx, ast.Load):
            self._refuse(node, f"{node.id} stands alone: it is a module")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._refuse(node, f"the attribute {node.attr} is set")
        parts, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        root = _dotted_root(self._names, inner.id) if isinstance(inner, ast.Name) else None
        path = ".".join(reversed(parts))
        if root == "cuda":
            if path not in WITHIN_CUDA:
                self._refuse(node, f"cuda.{path} is not among what a kernel of an exercise may use")
        elif root == "math":
            if path.startswith("_") or not hasattr(math, path):
                self._refuse(node, f"there is no math.{path}")
        elif root == "numpy":
            if path not in NUMPY:
                self._refuse(node, f"np.{path} is not for a kernel")
        else:
            self.visit(inner)  # first: of a module that is not imported nothing is asked
            if not all(p in OF_AN_ARRAY for p in parts):
                self._refuse(node, f".{path} is not among what a kernel may ask of an array")

    def _refuse(self, node: ast.AST, why: str) -> None:
        raise Refused("forbidden", f"line {getattr(node, 'lineno', '?')}: {why}")


def _define_functions(kept: list[ast.stmt], source: str, file: str, names: dict[str, Any]) -> dict[str, Any]:
    """Defines what was kept, with its own line numbers, among allow-listed globals alone."""
    module = ast.Module(body=kept, type_ignores=[])
    _remove_annotations(module)
    lines = source.splitlines(keepends=True)
    linecache.cache[file] = (len(source), None, lines, file)
    space: dict[str, Any] = {"__builtins__": dict(BUILTINS), "__name__": "submission", **names}
    try:
        exec(compile(module, file, "exec"), space)
    except Exception as error:
        raise Refused("cannot-run", f"the constants of {file} cannot be computed: {error}") from None
    return {s.name: space[s.name] for s in kept if isinstance(s, ast.FunctionDef)}


def _remove_annotations(module: ast.Module) -> None:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None


ALLOWED_IMPORTS = (
    "numpy", "math", "itertools", "functools", "collections", "dataclasses", "typing", "heapq", "bisect", "operator",
    "__future__", "abc", "enum", "fractions",
)  # fmt: skip


def forbidden_import(source: str, file: str, neighbours: Callable[[str], bool]) -> str | None:
    """The first import of a NumPy exercise that it does not need, in words. Raises Refused for what is no Python."""
    for node in ast.walk(parse_kernel_file(source, file)):
        modules = []
        if isinstance(node, ast.Import):
            modules = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [] if node.level else [node.module]
        for module in modules:
            top = module.partition(".")[0]
            if top == "minidecode" or (top not in ALLOWED_IMPORTS and not neighbours(top)):
                why = "the answer is to be yours" if top == "minidecode" else "the judge's process has NumPy alone"
                return f"line {node.lineno}: this imports {module}; {why}"
    return None
