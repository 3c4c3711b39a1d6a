"""docs/GLOSSARY.md: old names are gone, and the phrases of list 2 occur in no page, help text or error."""

import ast
import dataclasses
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from minidecode.catalog import CATALOG, RENAMED
from minidecode.dims import KEY
from minidecode.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8")
WORDS_OF_OTHERS = {"take", "follow", "redirect"}  # NumPy's and English words: old names only as functions of an op
OLD_NAME_MAY_STAND_IN = {"docs/GLOSSARY.md", "minidecode/catalog.py", "tests/house/test_glossary.py"}


def section(title: str) -> str:
    """The text under a heading, up to the next one of its level or above."""
    _, heading, rest = GLOSSARY.partition(f"# {title}\n")
    assert heading, title
    return re.split(r"^##+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def pairs(title: str) -> list[tuple[str, str]]:
    """The rows of a table of old and new names."""
    return re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", section(title), re.MULTILINE)


def tracked_texts() -> list[tuple[str, str]]:
    """Every file under version control that is text, with its path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    suffixes = {".py", ".md", ".toml", ".json", ".yml", ".yaml", ".sh", ".cff", ".html", ".css", ".txt"}
    paths = [p for p in listed.split("\0") if Path(p).suffix in suffixes and (ROOT / p).is_file()]
    return [(p, (ROOT / p).read_text(encoding="utf-8", errors="replace")) for p in paths]


def phrases() -> re.Pattern[str]:
    """List 2 as one pattern; a line break may stand for a space."""
    listed = re.findall(r"^- (.+)$", section("List 2: phrases that do not occur"), re.MULTILINE)
    assert len(listed) > 20
    return re.compile(r"\b(?:" + "|".join(re.escape(p).replace(r"\ ", r"\s+") for p in listed) + r")\b", re.IGNORECASE)


def prose_of(source: str) -> Iterator[str]:
    """Docstrings, and comments; those of neighbouring lines are one text."""
    comments, last = [], -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                comments.append("")
            comments[-1] += token.string.lstrip("#") + "\n"
            last = token.start[0]
    yield from comments
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def test_no_old_name_is_left_in_a_tracked_file():
    names = [old for old, _ in pairs("Functions and values") if old not in WORDS_OF_OTHERS] + ["memory_dtype"]
    assert "append_heads" in names
    old = re.compile(r"\b(?:" + "|".join(names) + r")\b")
    found = {path: sorted(set(old.findall(text))) for path, text in tracked_texts()}
    assert not {p: names for p, names in found.items() if names and p not in OLD_NAME_MAY_STAND_IN}


def test_the_table_of_renamed_plan_keys_is_that_of_the_page():
    assert dict(pairs("Plan keys and catalog rows")) == RENAMED


def test_no_file_plan_field_or_row_has_an_old_name():
    assert not RENAMED.keys() & {f.name for f in dataclasses.fields(Plan)}
    assert not RENAMED.keys() & CATALOG.keys()
    folders = [ROOT / "minidecode" / f for f in ("reference", "cpu", "cuda", "conformance/rows")]
    names = {p.stem for folder in [*folders, ROOT / "tests" / "mutants"] for p in folder.iterdir()}
    assert not RENAMED.keys() & names
    files = {p.name for p in (ROOT / "minidecode").rglob("*.py")}
    assert not {old for old, _ in pairs("Files")} & files


def test_no_function_of_an_op_has_an_old_name_in_any_version():
    old = re.compile(r"_?(?:" + "|".join(name for name, _ in pairs("Functions and values")) + r")(?:_naive|_v\d)?")
    assert old.fullmatch("redirect_v1") and not old.fullmatch("update_indirection_v1")
    found = []
    for path in (p for folder in ("reference", "cpu", "cuda") for p in (ROOT / "minidecode" / folder).rglob("*.py")):
        names = re.findall(r"^def (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        found += [f"{path.relative_to(ROOT)}: {name}" for name in names if old.fullmatch(name)]
    assert not found


def test_shared_kernel_code_has_no_old_function_or_parameter():
    old, found = dict(pairs("Functions and parameters of shared kernel code and of the thread pool")), []
    assert old["look"] == "accumulate"
    for path in (p for folder in ("cuda", "cpu") for p in (ROOT / "minidecode" / folder / "common").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.arg if isinstance(node, ast.arg) else getattr(node, "name", None)
            if isinstance(node, (ast.arg, ast.FunctionDef)) and name in old:
                found.append(f"{path.name}: {name} is now {old[name]}")
    assert not found


PAGES = [
    ROOT / p for p in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "tutorials/README.md")
]
PAGES += [p for p in sorted((ROOT / "docs").rglob("*.md")) if p.name != "GLOSSARY.md"]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_page_has_no_phrase_of_list_2(path):
    assert not phrases().findall(path.read_text(encoding="utf-8"))


def test_comments_on_neighbouring_lines_are_one_text():
    assert list(prose_of("x = 1  # held\n# against\n\n# other\n")) == [" held\n against\n", " other\n", ""]


def test_no_comment_or_docstring_has_a_phrase_of_list_2():
    found, pattern = [], phrases()
    for path in (ROOT / "minidecode").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for text in prose_of(source) if pattern.search(source.replace("#", " ")) else ():
            found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in pattern.finditer(text)]
    assert not found


def test_no_error_has_a_phrase_of_list_2():
    found, pattern = [], phrases()
    for path in (ROOT / "minidecode").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise):
                texts = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
                found += [f"{path.relative_to(ROOT)}: {text}" for text in texts if pattern.search(text)]
    assert not found


def test_no_help_text_has_a_phrase_of_list_2():
    from minidecode.commands.cli import app

    def helps(command):
        yield command.help or ""
        yield from (getattr(p, "help", None) or "" for p in command.params)
        for inner in getattr(command, "commands", {}).values():
            yield from helps(inner)

    assert not [text for text in helps(typer.main.get_command(app)) if phrases().search(text)]


def test_the_letters_of_shapes_are_those_of_the_key():
    rows = re.findall(r"^\| ([A-Z]) \| (.+) \|$", section("Letters of shapes"), re.MULTILINE)
    assert dict(rows) == KEY and len(rows) == len(KEY)


def test_terms_are_in_the_order_of_the_alphabet():
    terms = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", section("Terms"), re.MULTILINE)[2:]  # not the head
    assert terms == sorted(terms, key=str.lower) and len(terms) > 40
