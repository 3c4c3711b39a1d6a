"""The chapters: where they lie, what they are called, and their cells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, did_you_mean, names_with

AFTER_A_PREDICTION = "What it prints, after you have predicted"  # what such an output is folded under
OUTPUT = re.compile(r"\n\n<!-- output: -->\n.*?\n<!-- end of output -->", re.DOTALL)
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(?P<options>(?::[^\n]*\n)*)(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    code: str
    tags: tuple[str, ...]
    line: int  # of the chapter's text where the code begins
    end: int  # the place in the text right behind its fence


@dataclass(frozen=True)
class Chapter:
    """One file NN_name.md."""

    path: Path

    @property
    def number(self) -> str:
        return self.path.name[:2]

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """The first heading."""
        return re.search(r"^# (.+)$", self.text, re.MULTILINE)[1]

    @property
    def minutes(self) -> tuple[int, int]:
        """(without, with exercises), as the chapter says."""
        times = re.search(r"\*\*(\d+) minutes\*\*, (\d+) with exercises?", self.text)
        return int(times[1]), int(times[2])


def without_outputs(text: str) -> str:
    """A chapter's text without the recorded outputs: who runs it has outputs of his own."""
    return OUTPUT.sub("", text)


def code_cells(text: str) -> list[Cell]:
    """The code cells of a text without outputs, in order."""
    cells = []
    for match in CELL.finditer(text):
        tags = re.search(r":tags: \[(.*?)\]", match["options"])
        names = tuple(t.strip() for t in tags[1].split(",")) if tags else ()
        cells.append(Cell(match["code"], names, text.count("\n", 0, match.start("code")) + 1, match.end()))
    return cells


def chapters_folder() -> Path:
    """The folder of the chapters: inside an installed package, beside the package in a checkout."""
    here = Path(__file__).resolve().parents[1]
    return next((p for p in (here / "tutorials", here.parent / "tutorials") if p.is_dir()), here / "tutorials")


def chapters() -> list[Chapter]:
    """All chapters, in the order of their numbers."""
    return [Chapter(p) for p in sorted(chapters_folder().glob("[0-9][0-9]_*.md"))]


def find_chapter(name: str) -> Chapter:
    """A chapter by its number, `2` or `02`, by its file's name, or by a part of the name that no other chapter has."""
    known = {c.path.stem: c for c in chapters()}
    for chapter in known.values():
        if name in (chapter.path.stem, chapter.number) or (name.isdecimal() and int(name) == int(chapter.number)):
            return chapter
    with_it = names_with(name.removesuffix(".md"), known)
    if len(with_it) == 1:
        return known[with_it[0]]
    if with_it:
        raise InputError(f"the chapters {' and '.join(with_it)} all have {name!r} in their names: give a number")
    listed = ", ".join(c.number for c in known.values()) or "none"
    raise InputError(f"there is no chapter {name!r}{did_you_mean(name, known)}; there are {listed}")


def table_of_chapters(where: str) -> str:
    """All chapters as a Markdown table; where: the way to their folder from the page that shows it."""
    lines = ["| chapter | minutes | with exercises |", "|---|---|---|"]
    for c in chapters():
        lines.append(f"| [{c.number} {c.title}]({where}/{c.path.name}) | {c.minutes[0]} | {c.minutes[1]} |")
    return "\n".join(lines)
