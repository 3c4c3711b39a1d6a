"""The list of sampled tests names tests that exist, and leaves no mutant out."""

import ast
import functools
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = json.loads((ROOT / "tests" / "sampled.json").read_text(encoding="utf-8"))


@functools.cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_sampled_test_exists():
    for file, tests in LISTED.items():
        for name, step in tests.items():
            *in_class, function = name.split("::")
            # A class's tests may stand in a base class of another file.
            assert in_class or function in functions_of(f"tests/{file}"), f"{file} has no {name} any more: take it off"
            k, m = step if isinstance(step, list) else (step, None)
            assert type(k) is int and k != 1 and k >= 0 and (m is None or (type(m) is int and m > 1)), (file, name)


def test_every_mutant_is_judged_in_the_short_run_too():
    assert not [file for file, tests in LISTED.items() if "test_every_mutant_dies" in tests]
