"""Pieces of the code for pages: functions with what they need of their files, and docstrings as Markdown."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path


def code_of(path: Path, names: Iterable[str], others: Iterable[str] = ()) -> str:
    """These functions, constants before them and what else they need of their file behind them; of `others` nothing."""
    nodes, asked, needed = definitions(path), list(names), set()
    open_names = asked.copy()
    while open_names:
        if (one := open_names.pop()) not in needed:
            needed.add(one)
            used = {n.id for n in ast.walk(nodes[one]) if isinstance(n, ast.Name)}
            open_names += [name for name in used if name in nodes and name not in others]
    lines, shown, before = path.read_text(encoding="utf-8").splitlines(), "", None
    for node in sorted({nodes[name] for name in needed}, key=lambda node: (order(node, asked), node.lineno)):
        are_constants = isinstance(node, ast.Assign) and isinstance(before, ast.Assign)
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        shown += ("\n" if are_constants else "\n\n\n") + "\n".join(lines[first - 1 : node.end_lineno])
        before = node
    return shown.strip("\n")


def order(node: ast.stmt, asked: list[str]) -> int:
    """Constants first, then what was asked for, then what it needs: a table of functions too, which is no constant."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return 1 if node.name in asked else 2
    return 2 if any(isinstance(n, ast.Dict) for n in ast.walk(node)) else 0


@cache
def definitions(path: Path) -> dict[str, ast.stmt]:
    """A file's functions, classes and constants by their names."""
    nodes: dict[str, ast.stmt] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            nodes[node.name] = node
        elif isinstance(node, ast.Assign):
            targets = [t for target in node.targets for t in getattr(target, "elts", [target])]
            nodes |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return nodes


def functions(path: Path) -> set[str]:
    return {name for name, node in definitions(path).items() if isinstance(node, ast.FunctionDef)}


def borrowed(path: Path, code: str) -> dict[Path, list[str]]:
    """The functions that the code takes from other files of its folder: file -> names."""
    shared_by_file: dict[Path, list[str]] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for name in (alias.asname or alias.name for alias in node.names):
                file = path.parent / f"{(node.module or name).replace('.', '/')}.py"
                used = re.findall(rf"\b{name}\b" if node.module else rf"\b{name}\.(\w+)", code)
                known = functions(file) if file.exists() else set()
                if shared := sorted(known & {*used} - {"njit"}):  # which is Numba's, with our settings
                    shared_by_file.setdefault(file, []).extend(shared)
    return shared_by_file


def as_markdown(text: str) -> str:
    """What means something to Markdown escaped; `code` stays code."""
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(
        p if k % 2 else re.sub(r"([\\*<|]|\](?=[\[(:])|(?<!\w)_|_(?!\w))", r"\\\1", p) for k, p in enumerate(pieces)
    )
