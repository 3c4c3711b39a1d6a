"""The list of sampled tests names tests that exist, and leaves no mutant out."""

import ast
import functools
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLED, THINNED = (
    json.loads((ROOT / "tests" / f"{name}.json").read_text(encoding="utf-8")) for name in ("sampled", "thinned")
)


@functools.cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_sampled_test_exists():
    for name, step in [*SAMPLED.items(), *THINNED.items()]:
        path, *inside = name.split("::")
        # A class's tests may stand in a base class of another file.
        assert inside[-1] in functions_of(path) or len(inside) == 2, f"{name} is no test any more: take it off the list"
        assert isinstance(step, int) and step != 1 and step >= 0


def test_every_mutant_is_judged_in_the_short_run_too():
    assert not [name for name in SAMPLED if name.endswith("test_every_mutant_dies")]


def test_only_what_is_sampled_is_thinned():
    assert set(THINNED) <= set(SAMPLED) and min(THINNED.values()) > 1
