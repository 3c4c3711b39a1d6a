"""A docstring begins with what the thing does; each function of cuda/ has one, and a kernel's says launch and bytes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "minidecode"
NOT_CODE = {"mutants", "skeletons", "tutorials", "weights"}
REFERS_BACK = re.compile(r"(The same|As in|As for|As before|That of|Those of|Of|By|And)\b")
A_LAUNCH = re.compile(r"\b[Gg]rid\b")
BYTES = re.compile(r"\b[Rr]eads?\b.*\b[Ww]rites?\b|\b[Ww]rites?\b.*\b[Rr]eads?\b", re.DOTALL)


def refers_back(tree: ast.AST) -> Iterator[str]:
    """The first lines that say nothing without the docstring above them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if REFERS_BACK.match(text):
                yield text.partition("\n")[0]


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Public functions without a docstring, and kernels, factories' too, whose docstring lacks launch or bytes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not ast.get_docstring(node):
            yield node.name
    for node in ast.walk(tree):
        decorators = [ast.unparse(d) for d in getattr(node, "decorator_list", ())]
        if any(d.startswith("cuda.jit") and "device=True" not in d for d in decorators):
            text = ast.get_docstring(node) or ""
            if not (A_LAUNCH.search(text) and BYTES.search(text)):
                yield f"{node.name} (grid, and bytes read and written)"


def parsed(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """(path, tree) of the code in these folders of the package."""
    for folder in folders:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            parts = path.relative_to(PACKAGE).parts
            if not NOT_CODE & set(parts):
                yield "/".join(parts), ast.parse(path.read_text(encoding="utf-8"))


def test_a_docstring_begins_with_what_the_thing_does():
    found = [f"{path}: {line}" for path, tree in parsed(".") for line in refers_back(tree)]
    assert not found, "\n".join(found)


def test_each_function_of_the_kernels_says_what_it_does_and_each_kernel_what_it_moves():
    found = [f"{path}: {name}" for path, tree in parsed("cuda") for name in undocumented(tree)]
    assert not found, "\n".join(found)


def test_what_is_missing_would_be_found():
    tree = ast.parse(
        'def f():\n    """The same, twice."""\n'
        '@cuda.jit\ndef k():\n    """Grid R, block 32. Reads 4 bytes, writes 4."""\n'
        '@cuda.jit(launch_bounds=3)\ndef bare():\n    """Adds. Reads and writes 4 bytes."""\n'
        "@cuda.jit(device=True)\ndef part():\n    pass\ndef make():\n    @cuda.jit\n    def inner():\n        pass\n"
    )  # fmt: skip
    assert list(refers_back(tree)) == ["The same, twice."]
    kernels = [f"{name} (grid, and bytes read and written)" for name in ("bare", "inner")]
    assert list(undocumented(tree)) == ["part", "make", *kernels]
