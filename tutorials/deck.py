"""A lecture from a chapter: its pictures, code, results and tables as slides, with the chapter's text as notes.

Nothing is written twice: what stands on a slide is cut out of the chapter. A block (a picture, a cell with its output,
a listing, a table) becomes a slide, and the sentence before it becomes the slide's line. Text between two blocks is in
the notes. Where no block follows, the first sentence or two of each paragraph are on a slide.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from minidecode.course.chapters import AFTER_A_PREDICTION, Chapter
from minidecode.course.notebook import FRONT_MATTER

LINES, TOGETHER, POINTS = 24, 16, 6  # of code; of code and its output; sentences on one slide
BLOCK = re.compile(
    r"^```\{code-cell\}[^\n]*\n(?P<options>(?::[^\n]*\n)*)(?P<cell>.*?)^```$"
    r"|^```(?P<kind>\w*)\n(?P<listing>.*?)^```$"
    r"|^(?:\*(?P<caption>[^*\n]+)\*\n\n)?(?P<pictures>(?:!\[[^\]]*\]\([^)]*\)\n?)+)"
    r"|^(?P<table>(?:\|[^\n]*\|\n?)+)",
    re.DOTALL | re.MULTILINE,
)
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]*)\)")


@dataclass
class Slide:
    """title, a line below it, what is shown (HTML), and the text of the chapter that belongs to it (Markdown)."""

    title: str
    line: str
    shown: list[str] = field(default_factory=list)
    notes: str = ""


def deck(chapter: Chapter) -> list[Slide]:
    """The slides of a chapter, without its poll."""
    text = unfolded(re.sub(r"<!--.*?-->", "", FRONT_MATTER.sub("", chapter.text), flags=re.DOTALL))
    opening, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    name, (_, about, _, *idea) = f"{chapter.number} {chapter.title}", opening.strip().split("\n\n")
    slides = [Slide(name, "", [points(sentences(about)[-2:])], notes=about)]
    slides += of_section(name, "\n\n".join(idea), chapter.path.parent)  # the picture, without the way to the glossary
    for section in sections:
        title, _, body = section.partition("\n")
        if title != "Before you read":  # the poll, which has slides of its own
            slides += of_section(title, body, chapter.path.parent)
    return slides


def unfolded(text: str) -> str:
    """Outputs as if they were not folded, and no helpers of kernels."""
    text = re.sub(r"<details><summary>The code of .*?</details>\n*", "", text, flags=re.DOTALL)
    return re.sub(
        rf"<details><summary>{AFTER_A_PREDICTION}</summary>\n\n(.*?)\n\n</details>", r"\1", text, flags=re.DOTALL
    )


def of_section(title: str, body: str, folder: Path) -> Iterator[Slide]:
    """A slide for each block; a cell's output stays with its cell where both fit."""
    pending, done, before = "", 0, None
    for block in BLOCK.finditer(body):
        prose = body[done : block.start()].strip()
        done = block.end()
        pending = f"{pending}\n\n{prose}".strip()
        if block["options"] and "hide-input" in block["options"]:
            continue  # it draws the picture that follows
        shown = in_html(block, folder)
        is_output = block["kind"] == "text" and before is not None and not prose
        if is_output and lines_in(before.shown[-1]) + lines_in(shown[0]) <= TOGETHER:
            before.shown += shown
            before = None
            continue
        line = (sentences(pending) or [""])[-1]
        for part in shown:
            slide = Slide(title, line, [part], pending)
            yield slide
            pending = ""
        before = slide if block["cell"] is not None else None
    rest = f"{pending}\n\n{body[done:]}".strip()
    paragraphs = [said for paragraph in re.split(r"\n\s*\n", rest) if (said := sentences(paragraph))]
    most = 2 if len(paragraphs) <= POINTS // 2 else 1  # sentences of each
    said = [sentence for paragraph in paragraphs for sentence in paragraph[:most]]
    for k in range(0, len(said), POINTS):
        yield Slide(title, "", [points(said[k : k + POINTS])], rest if k == 0 else "")


def sentences(text: str) -> list[str]:
    """The sentences of plain paragraphs, without headings and without links."""
    flat = " ".join(line for line in text.split("\n") if not line.startswith(("#", "*Text:")))
    flat = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(flat.split()))
    return [sentence for sentence in re.split(r"(?<=[.?!:])\s+(?=[A-Z`*\d])", flat) if len(sentence.split()) > 1]


def points(said: list[str]) -> str:
    items = "".join(f"<li>{rendered(sentence)}</li>" for sentence in said)
    return f"<ul>{items}</ul>"


def rendered(text: str) -> str:
    """A sentence with its code and emphasis, without its links."""
    from markdown_it import MarkdownIt

    return MarkdownIt().renderInline(re.sub(r"^\d+\. ", "", text))


def in_html(block: re.Match, folder: Path) -> list[str]:
    """What a block shows: one part, or a part for each frame of a picture and for each piece of a long listing."""
    if block["pictures"]:
        found = PICTURE.findall(block["pictures"])
        return [picture(folder / place, alt, block["caption"] or "") for alt, place in found]
    if block["table"]:
        from markdown_it import MarkdownIt

        return [f'<div class="table">{MarkdownIt().enable("table").render(block["table"])}</div>']
    code = (block["cell"] if block["cell"] is not None else block["listing"]).strip("\n")
    live = "volatile" in (block["options"] or "")
    return [listing(part, block["kind"] or "", live) for part in pieces(code)]


def picture(path: Path, alt: str, caption: str) -> str:
    """An SVG inside the page, so that the page needs no other file."""
    data = base64.b64encode(path.read_bytes()).decode()
    head = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure>{head}<img src="data:image/svg+xml;base64,{data}" alt="{escape(alt, quote=True)}"></figure>'


def listing(code: str, kind: str, live: bool) -> str:
    """Code or an output in letters as large as its lines allow."""
    lines = code.split("\n")
    widest = max(map(len, lines))
    size = f"min(2.7vmin, {66 / (1.4 * len(lines) + 1):.2f}vh, {80 / (0.62 * widest):.2f}vw)"
    rows = "\n".join(marked(line) if kind == "diff" else escape(line) for line in lines)
    note = '<p class="live">Run this cell now.</p>' if live else ""
    return f'<pre class="{kind or "code"}" style="font-size: {size}" data-lines="{len(lines)}">{rows}</pre>{note}'


def marked(line: str) -> str:
    """A line of a diff, coloured by its sign."""
    return f'<span class="{ {"+": "new", "-": "old"}.get(line[:1], "") }">{escape(line)}</span>'


def pieces(code: str) -> list[str]:
    """The code, cut where it is longer than a slide: at empty lines, or in pieces of that length."""
    found, here = [], []
    for part in re.split(r"\n\s*\n", code):
        lines = part.split("\n")
        if here and len(here) + len(lines) + 1 > LINES:
            found.append("\n".join(here))
            here = []
        here += ([""] if here else []) + lines
        while len(here) > LINES:
            found.append("\n".join(here[:LINES]))
            here = here[LINES:]
    return [*found, "\n".join(here)]


def lines_in(shown: str) -> int:
    found = re.search(r'data-lines="(\d+)"', shown)
    return int(found[1]) if found else LINES
