"""What a test or script takes from another one exists there: many of them run only where torch is, late in CI."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path for folder in ("tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py"))


def names_of(tree: ast.AST) -> set[str]:
    """Every name that a file binds anywhere: more than its module has, and never less."""
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
    return bound


def missing_names(tree: ast.AST, names: dict[str, set[str]]) -> list[str]:
    """module.name of what a file takes from the modules in `names` although they lack it."""
    taken, modules = [], {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module in names:
            taken += [(node.module, alias.name) for alias in node.names]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            taken.append((modules[node.value.id], node.attr))
    return [f"{m}.{name}" for m, name in taken if name not in names[m] and not name.startswith("__")]


@pytest.fixture(scope="module")
def names() -> dict[str, set[str]]:
    """Module -> its names; files with one name in two folders share an entry."""
    found = defaultdict(set)
    for path in SCRIPTS:
        if path.stem not in ("__init__", "conftest"):
            found[path.stem] |= names_of(ast.parse(path.read_text(encoding="utf-8")))
    return dict(found)


def test_names_taken_from_other_scripts_exist(names):
    """A function moved to another file leaves no caller behind."""
    wrong = {
        str(path.relative_to(ROOT)): missing
        for path in SCRIPTS
        if (missing := missing_names(ast.parse(path.read_text(encoding="utf-8")), names))
    }
    assert not wrong


@pytest.mark.parametrize("line", ["import ties\nties.Tie()", "import ties as t\nt.Tie()", "from ties import Tie"])
def test_a_missing_name_is_found(names, line):
    """The rule finds each of the three ways to take a name."""
    assert missing_names(ast.parse(line), names) == ["ties.Tie"]
    assert not missing_names(ast.parse(line.replace("Tie", "Ties")), names)
