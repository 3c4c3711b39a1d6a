"""Whether a program is a published solution under other names, with other numbers.

Programs are compared by the shape of their statements: without names, numbers, comments, docstrings and annotations.
Short answers have the same shape by themselves, so each has a length. A solution that was rewritten is not found.

Python alone is needed here: the build of the wheel notes the shapes, since the solutions are not in it.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

FILES = ("solution.py", "another.py")
NOTED = "published.json"  # beside the skeletons of the wheel
LONG = {"N": 58, "K": 58, "M": 90, "C": 90, "P": 90}  # parts of expressions: so many are not alike by chance;
# where most of the program is given, or an answer is a formula, it takes more
_LEFT_OUT = {"ctx", "annotation", "returns", "type_comment", "type_params", "kind", "simple"}
_BODIES = {"body", "orelse", "finalbody", "handlers"}


@dataclass(frozen=True)
class Published:
    """One solution. shapes: of its statements at the top that the skeleton has not; size: parts of its expressions."""

    file: str
    shapes: tuple[str, ...]
    size: int

    def is_long(self, kind: str) -> bool:
        """Whether two students who do not know of each other would hardly write this, in an exercise of this kind."""
        return self.size >= LONG[kind]


def read_solutions(folder: Path, skeleton: str) -> list[Published]:
    """The solutions in an exercise's folder of a checkout."""
    solutions, given = [], ast.parse(skeleton)
    for file in filter(lambda file: (folder / file).is_file(), FILES):
        tree = ast.parse((folder / file).read_text(encoding="utf-8"))
        shapes = Counter(_hashes_of_statements(tree)) - Counter(_hashes_of_statements(given))
        written = _simple_statements(tree) - _simple_statements(given)
        size = sum(shape.count("(") * times for shape, times in written.items())
        solutions.append(Published(file, tuple(sorted(shapes.elements())), size))
    return solutions


def read_noted_solutions(path: Path, exercise: str) -> list[Published]:
    """What `solutions_as_json` wrote of one exercise."""
    return [Published(s["file"], tuple(s["shapes"]), s["size"]) for s in json.loads(path.read_text())[exercise]]


def solutions_as_json(solutions: dict[str, list[Published]]) -> str:
    """Exercise -> its solutions, as JSON for the wheel."""
    return json.dumps({exercise: [asdict(s) for s in each] for exercise, each in solutions.items()})


def recognise_solution(source: str, solutions: list[Published]) -> Published | None:
    """The solution that is in the source as a whole, whatever else is; the longest of several."""
    try:
        written = Counter(_hashes_of_statements(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    fits = [s for s in solutions if s.shapes and not Counter(s.shapes) - written]
    return max(fits, key=lambda s: s.size, default=None)


def shapes_of_functions(source: str) -> dict[str, str]:
    """The shape of each long function, also of those inside of others and of classes, and its name."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    shapes = {_shape_of_syntax(node, {}): node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return {shape: name for shape, name in shapes.items() if shape.count("(") >= LONG["N"]}


def _hashes_of_statements(tree: ast.Module) -> list[str]:
    """A hash of each statement at the top, names numbered as they come; imports and plain constants are left out."""
    shapes = []
    for statement in tree.body:
        is_plain = isinstance(statement, ast.Assign) and not any(
            isinstance(node, ast.Name | ast.Call) for node in ast.walk(statement.value)
        )
        if not is_plain and not _is_no_code(statement):
            shapes.append(hashlib.sha256(_shape_of_syntax(statement, {}).encode()).hexdigest()[:16])
    return shapes


def _simple_statements(tree: ast.Module) -> Counter:
    """The shapes of all statements, each without what it has inside of it and with its names."""
    statements: Counter = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef) and not _is_no_code(node):
            statements[_shape_of_syntax(node, None)] += 1
    return statements


def _is_no_code(node: ast.AST) -> bool:
    """Imports, docstrings and `pass`."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Import | ast.ImportFrom | ast.Pass)


def _shape_of_syntax(node: object, names: dict[str, str] | None) -> str:
    """The shape of a part of a program. names: filled in as names come; None to keep names, and leave out bodies.

    Not `ast.dump`, which writes the same program otherwise in other versions of Python.
    """
    if isinstance(node, list):
        return f"[{' '.join(_shape_of_syntax(part, names) for part in node if not _is_no_code(part))}]"
    if isinstance(node, ast.Constant):
        return "#" if isinstance(node.value, int | float) and not isinstance(node.value, bool) else repr(node.value)
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = [type(node).__name__.replace("AnnAssign", "Assign")]
    for field, value in ast.iter_fields(node):
        if field in _LEFT_OUT or value is None or value == [] or (names is None and field in _BODIES):
            continue
        is_name = isinstance(value, str) and (field in ("id", "arg") or isinstance(node, ast.FunctionDef))
        if is_name and not isinstance(node, ast.keyword) and names is not None:
            parts.append(names.setdefault(value, f"n{len(names)}"))
        else:
            parts.append(
                _shape_of_syntax([value] if field == "target" and isinstance(node, ast.AnnAssign) else value, names)
            )
    return f"({' '.join(parts)})"
