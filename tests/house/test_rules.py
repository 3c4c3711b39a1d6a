"""The ten rules of docs/ARCHITECTURE.md, as far as a program can hold them."""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import io
import pkgutil
import re
import tokenize
from pathlib import Path

import pytest

import minidecode
from minidecode import dims, models, ops, plan, reference
from minidecode.catalog import CATALOG
from minidecode.plan import functions_of_backend, op_names

ROOT = Path(__file__).resolve().parents[2]  # of the checkout: the package under test may be installed elsewhere
PACKAGE = ROOT / "minidecode"
FAMILY_FILES = sorted({Path(family.network.__file__) for family in models.FAMILIES.values()})
CONFIG = "# ---- config.json "  # ends the forward pass in the file of a family


def lines_of_code(source: str) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings - {source.count("\n") + 1})


def forward_pass(path: Path) -> str:
    """The first part of a family's file: what it imports, its weights and its forward passes."""
    before, found, behind = path.read_text(encoding="utf-8").partition(CONFIG)
    assert found and "\nclass " in behind, "the config class stands behind the forward pass"
    return before


CORE_OF_SERVING = ("serving/batch", "serving/jobs", "serving/lanes", "serving/scheduler",
                   "cache/running", "cache/running_pages", "cache/pages", "cache/parts")  # fmt: skip


def test_the_core_of_serving_is_one_chapter():
    """Scheduler, joins and pages: at most 1,000 lines of code."""
    sources = [(PACKAGE / f"{name}.py").read_text(encoding="utf-8") for name in CORE_OF_SERVING]
    assert sum(map(lines_of_code, sources)) <= 1000


@pytest.mark.parametrize("path", FAMILY_FILES, ids=lambda p: p.name)
def test_a_forward_pass_comes_first_and_fits_on_a_page(path):
    assert lines_of_code(forward_pass(path)) < 75


@pytest.mark.parametrize("path", [*FAMILY_FILES, PACKAGE / "models" / "products.py"], ids=lambda p: p.name)
def test_a_forward_pass_knows_no_plan_and_asks_no_types(path):
    source = path.read_text(encoding="utf-8").partition(CONFIG)[0]
    nodes = list(ast.walk(ast.parse(source)))
    imported = {a.name for n in nodes if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
    assert not imported & {"plan", "Plan", "cache", "reference"}
    named = {n.id for n in nodes if isinstance(n, ast.Name)}
    assert not named & {"isinstance", "np"}, "a forward pass computes by its ops alone"


@pytest.mark.parametrize("family", models.FAMILIES.values(), ids=lambda f: f.name)
def test_a_family_can_do_what_it_declares(family):
    functions, config = vars(family.network), vars(family.config) | vars(family.network)
    assert family.has_encoder == ("encode" in functions)
    assert family.has_latent == ("project_latent" in functions)
    assert family.writes == ("lm_head" in functions) == ("label_logits" not in functions)
    assert family.is_rotary == ("rotate_heads" in forward_pass(Path(family.network.__file__)))
    assert family.reads_in_front == ("source_type_id" in config)


def test_nothing_asks_which_family_a_model_is_of():
    """What a family can do is declared in `Family`, its config and its weights: no attribute is looked for."""
    ability = r"(has|get)attr\((\w+\.)*(network|weights|family|block)\b(?!, \w+\.name\))"
    of_config = r"(has|get)attr\((?!self\.live)(\w+\.)*config, \""
    asked = re.compile(f"{ability}|{of_config}" + r"|family(\.name)? ==")
    assert asked.search('if hasattr(self.weights, "turns_NK")') and asked.search('if family.name == "bert":')
    lines = [(path.name, line) for path in PACKAGE.rglob("*.py") for line in path.read_text("utf-8").split("\n")]
    assert not [line for line in lines if asked.search(line[1])]


def asked_caches(source: str) -> list[int]:
    """Lines in which something of a cache is compared with a cache's name, or a class of caches is asked for."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare | ast.Match):
            operands = [node.subject, *node.cases] if isinstance(node, ast.Match) else [node.left, *node.comparators]
            parts = [part for operand in operands for part in ast.walk(operand)]
            words = {part.value for part in parts if isinstance(part, ast.Constant)}
            if words & set(plan.CACHES) and "cache" in " ".join(map(ast.unparse, operands)):
                lines.append(node.lineno)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked = ast.unparse(node.args[1])
            if any(re.search(rf"\b{kind.__name__}\b", asked) for kind in plan.CACHES.values()):
                lines.append(node.lineno)
    return lines


def test_nothing_asks_which_cache_a_plan_has():
    """Rule 2: what others ask of a cache is declared in its class (`CacheTraits`), so that a new one is one file."""
    asks = ('plan.cache == "el"', 'choices.get("cache") in ("split", "paged")', "isinstance(cache, RollingCache)")
    assert all(asked_caches(line) for line in asks) and not asked_caches('method == "el" and plan.cache == before')
    files = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "cache"]
    found = {path.name: lines for path in files if (lines := asked_caches(path.read_text(encoding="utf-8")))}
    assert not found


def test_the_class_model_is_short():
    """What its methods do has files of its own in methods/."""
    assert (PACKAGE / "model.py").read_text(encoding="utf-8").count("\n") <= 400


def test_a_family_is_one_file():
    """What all families share has three files; each other one in models/ is a family's."""
    shared = {"__init__.py", "config.py", "products.py"}
    assert {p.name for p in (PACKAGE / "models").glob("*.py")} == {p.name for p in FAMILY_FILES} | shared


@pytest.mark.parametrize("name", op_names())
def test_the_reference_has_the_op_with_the_same_signature(name):
    """Rule 8: same name, same positional parameters, everything beyond them keyword-only."""
    expected = inspect.signature(getattr(ops, name)).parameters
    found = inspect.signature(functions_of_backend(reference)[name]).parameters
    positional = [p.name for p in found.values() if p.kind is not p.KEYWORD_ONLY]
    assert positional == list(expected)
    assert "out" in expected, "rule 4: every op has out=None"
    assert {n: p.default for n, p in expected.items()} == {n: found[n].default for n in expected}


def test_each_op_is_defined_in_one_file_only():
    definitions = {name: [] for name in op_names()}
    for info in pkgutil.iter_modules(reference.__path__):
        module = importlib.import_module(f"minidecode.reference.{info.name}")
        for name in definitions:
            function = vars(module).get(name)
            if function is not None and function.__module__ == module.__name__:
                definitions[name].append(info.name)
    assert all(len(files) == 1 for files in definitions.values()), definitions


@pytest.mark.parametrize("name", op_names())
def test_an_op_says_its_contract_and_its_cost(name):
    doc = inspect.getdoc(getattr(ops, name))
    assert "Contract: exact" in doc or "Contract: tolerance" in doc
    assert "oves " in doc or "Reads " in doc


def test_dimension_letters():
    assert dims.letters("q_RHK") == "RHK"
    assert dims.letters("prompt_k_BGNK") == "BGNK"
    assert dims.letters("scale") is None
    assert dims.letters("num_beams") is None


def test_the_dimension_checker_finds_a_swapped_argument():
    import numpy as np

    embed = dims.with_checked_shapes(functions_of_backend(reference)["embed_norm"], ops.RETURNS["embed_norm"])
    wte_VD, wpe_ND = np.zeros((11, 4)), np.zeros((7, 4))
    rest = 1.0, ops.Norm(np.ones(4), np.zeros(4), 1e-5)
    assert [a.shape for a in embed(np.array([1, 2]), np.array([0, 1]), wte_VD, wpe_ND, *rest)] == [(2, 4)] * 2
    with pytest.raises(ValueError, match="rows of this call"):
        embed(np.array([1, 2, 3]), np.array([0, 1]), wte_VD, wpe_ND, *rest)
    with pytest.raises(ValueError, match="model width"):
        embed(np.array([1, 2]), np.array([0, 1]), wte_VD, np.zeros((7, 5)), *rest)
    with pytest.raises(ValueError, match="should have 2 axes"):
        embed(np.array([1, 2]), np.array([0, 1]), np.zeros(4), wpe_ND, *rest)


def test_memories_and_plans_are_known_by_name():
    assert set(plan.CACHES) == {"none", "replicated", "preallocated", "split", "indirect", "paged", "rolling", "el"}
    assert str(plan.Plan.parse("auto")) == "auto"
    assert str(plan.Plan.parse("numpy")) == "cache=replicated"
    assert str(plan.Plan.parse("ngram=cpu")) == "cache=replicated,ngram=cpu"
    assert str(plan.Plan.parse("arena=planned,cache=split")) == "cache=split,arena=planned"
    assert str(plan.Plan.parse("cache_dtype=float16")) == "cache=replicated,cache_dtype=float16"
    for bad in (
        "cache=best",
        "cache_dtype=int8",
        "cache=none,cache_dtype=float16",
        "arena=best",
        "speed=high",
        "fast!",
        "cache",
        "ngram=best",
        "ngram=cpu,ngram=cpu",
    ):
        with pytest.raises(minidecode.OptionError):
            plan.Plan.parse(bad)


@pytest.mark.parametrize(
    ("bad", "say"),
    [("reorder=cpu", "cache=preallocated or cache=split or cache=rolling or cache=el"),
     ("rolling=naive", "cache=rolling"),
     ("cache=split,indirect=cpu", "cache=indirect")],
)  # fmt: skip
def test_a_plan_refuses_a_choice_that_its_memory_never_asks_for(bad, say):
    with pytest.raises(minidecode.OptionError, match=f"has no effect with cache=.*: say {say}$"):
        plan.Plan.parse(bad)


def test_every_row_of_the_catalog_can_be_chosen_in_a_plan():
    fields = {f.name for f in dataclasses.fields(plan.Plan)}
    assert fields == {"base", "cache", "cache_dtype", "arena", "drop_finished", "graphs", "launch", *CATALOG}


def test_the_map_is_fresh_and_every_file_of_the_package_has_a_first_line():
    """docs/MAP.md lists each file with the first line of its docstring; exercises and mutants are found by names."""
    spec = importlib.util.spec_from_file_location("write_map", ROOT / "docs" / "write_map.py")
    write_map = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(write_map)
    without = [str(p.relative_to(PACKAGE)) for p in write_map.files() if not write_map.first_line(p)]
    assert not without
    assert write_map.PAGE.read_text(encoding="utf-8") == write_map.page(), "run python docs/write_map.py"


def test_every_row_of_the_catalog_has_its_page_and_each_is_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))  # where the script's own imports lie
    import write_ops

    assert {path.stem for path in (ROOT / "docs" / "ops").glob("*.md")} == set(CATALOG)
    for path, text in write_ops.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run python docs/write_ops.py"
        if path.parent.name == "ops":
            assert "- In chapters: [" in text or "- In the guide: [" in text, f"{path}: no chapter, no page explains it"


def test_what_is_written_from_the_table_of_options_is_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import write_options

    for path, text in write_options.written().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run python docs/write_options.py"


def test_the_guide_says_what_works_on_each_kind_of_model():
    """docs/write_models.py asks a toy of each kind; a new family or technique makes the page stale."""
    spec = importlib.util.spec_from_file_location("write_models", ROOT / "docs" / "write_models.py")
    write_models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(write_models)
    page, tables = write_models.PAGE.read_text(encoding="utf-8"), write_models.tables()
    assert write_models.written(page, tables) == page, "run python docs/write_models.py"
    asked = {name for name in tables.split("`") if name in models.FAMILIES}
    assert asked == set(models.FAMILIES)
