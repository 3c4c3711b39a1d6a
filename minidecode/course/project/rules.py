"""The rules of the course project that a program can hold: how long an engine may be, and what it may import.

What an engine reaches is no matter of rules: see engine.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

LINES = 350  # of code: without blank lines, comments and docstrings
OWN = {  # Python's own modules that an engine has a use for
    "__future__", "collections", "dataclasses", "functools", "heapq", "itertools", "json", "math", "operator",
    "pathlib", "struct", "time", "types", "typing",
}  # fmt: skip
OF_MINIDECODE = {"emulate"}  # which runs the kernel; all else would be our answer


def broken_rules(source: str) -> list[str]:
    """What an engine does against the rules, a sentence each; none of what cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    broken = [f"line {line} {what}" for line, what in _imported_modules(tree)]
    if (lines := lines_of_code(source)) > LINES:
        broken.append(f"it has {lines} lines of code, and {LINES} are allowed")
    return broken


def lines_of_code(source: str) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    said: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            said.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(source.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and number not in said for number, line in lines)


def _imported_modules(tree: ast.Module) -> Iterator[tuple[int, str]]:
    ours = set()  # what minidecode is called in this file
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                top = name.name.partition(".")[0]
                if name.name == "minidecode":
                    ours.add(name.asname or "minidecode")
                elif top not in OWN | {"numpy", "numba"}:
                    yield node.lineno, f"imports {name.name}"
        elif isinstance(node, ast.ImportFrom):
            top = (node.module or "").partition(".")[0]
            if node.module == "minidecode":
                yield from ((node.lineno, f"imports minidecode.{n.name}") for n in node.names
                            if n.name not in OF_MINIDECODE)  # fmt: skip
            elif node.level or top not in OWN | {"numpy", "numba"}:
                yield node.lineno, f"imports {'.' * node.level}{node.module or ''}"
    asked = set()  # where its name stands before a point
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ours:
            asked.add(node.value)
            if node.attr not in OF_MINIDECODE:
                yield node.lineno, f"uses minidecode.{node.attr}"
        elif isinstance(node, ast.Name) and node.id in ours and node not in asked:
            yield node.lineno, f"uses {node.id} for something else than {node.id}.emulate"
