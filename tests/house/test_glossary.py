"""docs/GLOSSARY.md: the phrases of list 1 occur in no page and no text of the package."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from minidecode.dims import KEY

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text under a heading, up to the next one of its level or above."""
    _, heading, rest = GLOSSARY.partition(f"# {title}\n")
    assert heading, title
    return re.split(r"^##+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def phrases() -> re.Pattern[str]:
    """List 1 as one pattern; a line break may stand for a space."""
    listed = re.findall(r"^- (.+)$", section("List 1: phrases that do not occur"), re.MULTILINE)
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


PAGES = [
    ROOT / p for p in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "tutorials/README.md")
]
PAGES += [p for p in sorted((ROOT / "docs").rglob("*.md")) if p.name != "GLOSSARY.md"]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_page_has_no_phrase_of_list_1(path):
    assert not phrases().findall(path.read_text(encoding="utf-8"))


def test_comments_on_neighbouring_lines_are_one_text():
    assert list(prose_of("x = 1  # held\n# against\n\n# other\n")) == [" held\n against\n", " other\n", ""]


def test_no_comment_or_docstring_has_a_phrase_of_list_1():
    found, pattern = [], phrases()
    for path in (ROOT / "minidecode").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for text in prose_of(source) if pattern.search(source.replace("#", " ")) else ():
            found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in pattern.finditer(text)]
    assert not found


def test_no_text_of_the_package_has_a_phrase_of_list_1():
    """Errors, hints of exercises, pictures' captions: whatever a string holds; and the exercises' pages."""
    found, pattern = [], phrases()
    for path in (ROOT / "minidecode").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and pattern.search(node.value):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}")
    for path in (ROOT / "minidecode").rglob("*.md"):
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in pattern.finditer(path.read_text("utf-8"))]
    assert not found


def test_no_help_text_has_a_phrase_of_list_1():
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
