"""Imports go down the layers that docs/ARCHITECTURE.md lists, and no two modules import each other."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "minidecode"
NOT_CODE = {"mutants", "skeletons", "tutorials", "weights"}  # data, and files that are found by their names


def modules() -> dict[str, Path]:
    """Dotted name below minidecode -> file; the package itself is __init__."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if not NOT_CODE & set(parts):
            name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
            found[name] = path
    return found


def run_code(tree: ast.AST) -> list[ast.AST]:
    """The nodes of a file without those that only type checkers read."""
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.unparse(tree.test):
        return [node for child in tree.orelse for node in run_code(child)]
    return [tree, *(node for child in ast.iter_child_nodes(tree) for node in run_code(child))]


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of this package that a file imports, inside functions too."""
    here = name.split(".") if name != "__init__" else []
    folder = here if path.name == "__init__.py" else here[:-1]
    found = set()
    for node in run_code(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [a.name.split(".") for a in node.names]
            found |= {".".join(parts[1:]) or "__init__" for parts in names if parts[0] == "minidecode"}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            named = node.args[0].value if isinstance(node.args[0], ast.Constant) else ""
            if named.startswith((".", "minidecode.")):
                base = folder if named.startswith(".") else []
                found.add(".".join([*base, *named.removeprefix("minidecode").lstrip(".").split(".")]))
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            if node.level:
                base = [*folder[: len(folder) - node.level + 1], *module]
            elif module[:1] == ["minidecode"]:
                base = module[1:]
            else:
                continue
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                found.add(whole if whole in known else ".".join(base) or "__init__")
    return found - {name}


def layers() -> list[list[str]]:
    """The table of the page, bottom to top: names of modules and folders."""
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("## The import layers\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [[name.replace("/", ".") for name in re.findall(r"`(.*?)`", row)] for row in rows]


def layer_of(module: str, order: list[list[str]]) -> int:
    """The layer of the longest name that the module begins with."""
    fits = [(len(n), i) for i, names in enumerate(order) for n in names if f"{module}.".startswith(f"{n}.")]
    assert fits, f"docs/ARCHITECTURE.md has no layer for minidecode/{module.replace('.', '/')}"
    return max(fits)[1]


def test_imports_go_down_the_layers():
    known, order = modules(), layers()
    up = [
        f"{name} -> {target}"
        for name, path in known.items()
        for target in imports(name, path, known)
        if layer_of(target, order) > layer_of(name, order)
    ]
    assert not up, f"imports that go up the layers of docs/ARCHITECTURE.md: {', '.join(sorted(up))}"


def test_no_modules_import_each_other():
    known = modules()
    try:
        TopologicalSorter({name: imports(name, path, known) for name, path in known.items()}).prepare()
    except CycleError as error:
        raise AssertionError(f"modules import each other: {' -> '.join(error.args[1])}") from None


def test_an_import_that_goes_up_would_be_found(tmp_path):
    """Relative, absolute and late imports are seen; those for type checkers alone are not."""
    path = tmp_path / "engine.py"
    path.write_text(
        "from __future__ import annotations\nimport numpy\nfrom ..model import Model\nfrom . import arena\n"
        "if TYPE_CHECKING:\n    from ..files import hub\ndef f():\n    import minidecode.bench.ladder\n"
        "    from minidecode.course import busy\n",
        encoding="utf-8",
    )
    found = imports("runtime.engine", path, modules())
    assert found == {"model", "runtime.arena", "bench.ladder", "course.busy"}
    assert layer_of("model", layers()) > layer_of("runtime.engine", layers())
