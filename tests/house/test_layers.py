"""Imports and calls through protocols go down the layers of docs/ARCHITECTURE.md; no modules import each other."""

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


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of this package that a file imports, inside functions and for type checkers too."""
    here = name.split(".") if name != "__init__" else []
    folder = here if path.name == "__init__.py" else here[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [a.name.split(".") for a in node.names]
            found |= {".".join(parts[1:]) or "__init__" for parts in names if parts[0] == "minidecode"}
        elif isinstance(node, ast.Call) and "import_module" in vars(node.func).values() and node.args:
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


def classes(path: Path) -> dict[str, tuple[set[str], set[str]]]:
    """Name -> (names of the bases, names of the methods) of each class in a file."""
    nodes = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.ClassDef)]
    return {
        n.name: ({ast.unparse(b) for b in n.bases}, {f.name for f in n.body if isinstance(f, ast.FunctionDef)})
        for n in nodes
    }


def is_protocol(bases: set[str]) -> bool:
    return any(base.partition("[")[0].rpartition(".")[2] == "Protocol" for base in bases)


def test_calls_through_protocols_go_down():
    """Who calls a protocol's methods lies no lower than it; so its classes lie no higher. The page names who does."""
    order = layers()
    found = [(module, name, *of) for module, path in modules().items() for name, of in classes(path).items()]
    protocols = [(module, name, methods) for module, name, bases, methods in found if is_protocol(bases)]
    assert {name for _, name, _ in protocols} >= {"LayerCache", "Watcher"}
    up = [
        f"{protocol} -> {other}"
        for module, protocol, methods in protocols
        for other, _, bases, has in found
        if methods and not is_protocol(bases) and methods <= has and layer_of(other, order) > layer_of(module, order)
    ]
    assert up == ["Watcher -> course.explore.watch"]


def test_no_modules_import_each_other():
    known = modules()
    try:
        TopologicalSorter({name: imports(name, path, known) for name, path in known.items()}).prepare()
    except CycleError as error:
        raise AssertionError(f"modules import each other: {' -> '.join(error.args[1])}") from None


def test_an_import_that_goes_up_would_be_found(tmp_path):
    """Relative, absolute and late imports are seen, and those for type checkers alone."""
    path = tmp_path / "engine.py"
    path.write_text(
        "from __future__ import annotations\nimport numpy\nfrom ..model import Model\nfrom . import arena\n"
        "if TYPE_CHECKING:\n    from ..files import hub\ndef f():\n    import minidecode.bench.ladder\n"
        "    from minidecode.course import busy\n",
        encoding="utf-8",
    )
    found = imports("runtime.engine", path, modules())
    assert found == {"model", "runtime.arena", "files.hub", "bench.ladder", "course.busy"}
    assert layer_of("model", layers()) > layer_of("runtime.engine", layers())
