"""Code that readers copy takes stable names alone: in README, docs, exercises with their skeletons, and chapters.

Stable are the public names (docs/api.md) and the course's modules; in chapters also an op's file, which has the name of
the op's page. What else a chapter shows of the insides is in a table of docs/CHAPTERS.md.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import minidecode
from minidecode.catalog import CATALOG

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^ *```(?:py|python|\{code-cell\} python)\n(?: *:[^\n]*\n)*(.*?)^ *```$", re.DOTALL | re.MULTILINE)
CHAPTERS = sorted((ROOT / "tutorials").glob("[0-9][0-9]_*.md"))
TASKS = ROOT / "minidecode" / "course" / "exercises" / "tasks"
OTHERS = sorted(  # a skeleton is made of the exercise's solution
    {ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "exercises").rglob("*.py"), *TASKS.glob("*.md")}
)
PUBLIC = {*minidecode.__all__, "course", "__version__"}


def programs(path: Path) -> Iterator[ast.Module]:
    """A program's file, or each block of code of a page."""
    text = path.read_text(encoding="utf-8")
    for block in [text] if path.suffix == ".py" else BLOCK.findall(text):
        yield ast.parse(textwrap.dedent(block))


def taken(tree: ast.Module, known_as: set[str]) -> Iterator[str]:
    """What a program takes of the package, as module.name without `minidecode`; known_as: what it calls the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                package, _, inside = alias.name.partition(".")
                if package == "minidecode" and inside:
                    yield inside
        elif isinstance(node, ast.ImportFrom) and not node.level and f"{node.module}.".startswith("minidecode."):
            yield from (f"{node.module}.{alias.name}".removeprefix("minidecode.") for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known_as:
            yield node.attr


def inner_names(trees: list[ast.Module]) -> set[str]:
    """What the programs of one page take beside the public names."""
    imports = [
        alias for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    ]
    known_as = {alias.asname or "minidecode" for alias in imports if alias.name == "minidecode"}
    return {name for tree in trees for name in taken(tree, known_as) if name.partition(".")[0] not in PUBLIC}


def is_of_an_op(name: str) -> bool:
    folder, _, rest = name.partition(".")
    return folder in ("reference", "cpu", "cuda") and rest.partition(".")[0] in CATALOG


def shown_insides() -> dict[str, set[str]]:
    """Chapter -> names: the table of docs/CHAPTERS.md."""
    page = (ROOT / "docs" / "CHAPTERS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\d) \| (`[^|]*`) \| [^|]+ \|$", page, re.MULTILINE)
    return {number: set(re.findall(r"`(.*?)`", names)) for number, names in rows}


def test_readers_files_take_public_names_alone():
    """What a reader copies from a guide or an exercise does not break when a file moves."""
    inner = {str(path.relative_to(ROOT)): inner_names(list(programs(path))) for path in OTHERS}
    assert len(inner) > 300 and not {path: names for path, names in inner.items() if names}


def test_chapters_take_public_names_ops_and_what_the_page_lists():
    inner = {path.name[:2]: {n for n in inner_names(list(programs(path))) if not is_of_an_op(n)} for path in CHAPTERS}
    assert {number: names for number, names in inner.items() if names} == shown_insides()


def test_each_way_to_take_an_inner_name_is_found():
    page = (
        "import minidecode as md\nmd.load\nmd.conformance.check\nfrom minidecode import course, emulate\nmd.cache.el\n"
    )
    other = """
import minidecode
minidecode.plan, md.__version__
def f():
    from minidecode import cuda
    import minidecode.cpu.norm as n
from minidecode.reference.ngram import ban_ngrams
from minidecode import *
from .page import GPT2
"""
    found = inner_names([ast.parse(page), ast.parse(other)])
    assert found == {"cache", "plan", "cuda", "cpu.norm", "reference.ngram.ban_ngrams", "*"}
    assert [name for name in sorted(found) if is_of_an_op(name)] == ["cpu.norm", "reference.ngram.ban_ngrams"]


def test_blocks_of_a_page_are_read(tmp_path):
    pages = [
        "```python\na\n```\n",
        "- x\n\n  ```py\n  b\n  ```\n",
        "```{code-cell} python\n:tags: [volatile]\nc\n```\n",
    ]
    (tmp_path / "page.md").write_text("\n".join([*pages, "```text\n-\n```\n"]), encoding="utf-8")
    assert [ast.unparse(tree) for tree in programs(tmp_path / "page.md")] == ["a", "b", "c"]
