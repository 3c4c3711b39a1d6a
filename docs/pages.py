"""What of the site is made from the code: ops, results, the list of names; docstrings as they stand."""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
from collections.abc import Callable
from html import escape, unescape
from pathlib import Path

import op_pages
import puzzle
import write_ops
from recorded import machine_of

import minidecode
from minidecode.bench.step_costs import OWN, held_bytes, make_step_of_published_model
from minidecode.catalog import CATALOG
from minidecode.course.canvas import STYLE
from minidecode.course.chapters import chapters, table_of_chapters, without_outputs

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BOXES = {  # rows of the catalog that a step of the anatomy computes, in words
    "reorder": "copies for other beams", "embedding": "embedding", "linear": "matrix product", "heads": "heads",
    "append": "into the cache",
    "prefill": "attention, all positions at once", "grouped": "attention to each text's own cache",
    "split": "attention, the prompt kept once", "el_split": "EL-attention", "activation": "GELU", "norm": "norms",
    "softmax": "probabilities",
}  # fmt: skip
CHAPTERS = {"embedding": "00_map", "softmax": "03_beams"}  # of ops that no chapter links to
ON_A_PHONE, SMALLEST = 344, 9  # pixels: the width of a text on a screen of 360, and the least height of a letter
TABLE = re.compile(r'<table class="docutils.*?</table>', re.DOTALL)
LETTERS_ON_A_PHONE = 38  # that stand side by side in a table
BREAKS = re.compile(r"(?<=[A-Za-z\])])([_/.=,:(-])(?=\w)")  # where a long name may go on in the next line
RECEIPT_HEAD = re.compile(r"op +calls +seconds +MB +implementation")
RECEIPT_ROW = re.compile(r"(\w+) +([\d,]+) +([\d.]+) +([\d.]+)  (.*)")
RECEIPT_TABLE = (
    '<table class="docutils receipt"><thead><tr><th>op</th><th>calls</th><th>seconds</th><th>MB</th>'
    "<th>implementation</th></tr></thead><tbody>"
)
VOLATILE = re.compile(
    r'(<div class="cell tag_volatile(?:(?!<div class="cell ).)*?<div class="cell_output [^>]*>)', re.DOTALL
)
BUILDERS = "The computer that built this site printed this. Run the cell for the numbers of your own."
VERSIONS = re.compile(r"<!-- here: versions (\w+) -->.*?<!-- end of versions -->", re.DOTALL)
PRE = re.compile(r'(?<=<div class="highlight">)<pre>(.*?)</pre>', re.DOTALL)


def complete(app, docname: str, source: list[str]) -> None:
    """Pages as they are read: chapters without recorded outputs, since their cells run; generated parts."""
    if docname.startswith("tutorials/"):
        source[0] = without_outputs(source[0])
    for name, make in PARTS.items():
        if (mark := f"<!-- here: {name} -->") in source[0]:
            source[0] = source[0].replace(mark, make())
    if op := VERSIONS.search(source[0]):
        source[0] = source[0].replace(op[0], op_pages.versions(op[1]))
        for file in op_pages.files(op[1]) if app else ():
            app.env.note_dependency(str(file))


def fit(app, pagename: str, template: str, context: dict, doctree) -> None:
    """What is too wide for a screen: lines of code go on below, further in; wide tables become lists on a phone, and
    printed receipts tables. Above what differs between machines it says whose numbers these are."""
    if "body" in context and not pagename.startswith("_modules"):  # there definitions are elements of many lines
        body = VOLATILE.sub(rf"\1<p>{BUILDERS}</p>", context["body"])
        body = PRE.sub(lambda box: printed(box[1], context["pathto"]), body)
        context["body"] = TABLE.sub(lambda table: labelled(table[0]), body)


def printed(html: str, link_of: Callable[[str], str]) -> str:
    """The inside of a box, line by line; of a receipt in it, the ops as a table whose names lead to their pages."""
    parts: list[list[str]] = [[]]
    for text in html.rstrip().splitlines():
        if RECEIPT_HEAD.fullmatch(text):
            parts += [[], []]
        elif len(parts) > 1 and not parts[-1] and (row := RECEIPT_ROW.fullmatch(text)):
            parts[-2].append(receipt_row(row, link_of))
        else:
            parts[-1].append(line(text))
    boxes = [f"<pre>{''.join(part)}</pre>" if part else "" for part in parts[::2]]
    tables = [f"{RECEIPT_TABLE}{''.join(part)}</tbody></table>" for part in parts[1::2]]
    return "".join(box + table for box, table in zip(boxes, [*tables, ""], strict=True)) or "<pre></pre>"


def receipt_row(row: re.Match, link_of: Callable[[str], str]) -> str:
    name = next((name for name, of_catalog in CATALOG.items() if of_catalog.op == row[1]), None)
    op = row[1] if name is None else f'<a class="reference internal" href="{link_of(f"docs/ops/{name}")}">{row[1]}</a>'
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in (op, *row.groups()[1:])) + "</tr>"


def labelled(table: str) -> str:
    """The table, its long names broken at their marks and no word anywhere. One that is too wide for a phone has each
    cell's column in its `data-label`: there site.css makes a list of it."""
    table = re.sub(r">[^<]+", lambda text: BREAKS.sub(r"\1<wbr>", text[0]), table)
    head, end_of_head, body = table.partition("</thead>")
    names = [re.sub(r"<[^>]*>", "", name).strip() for name in re.findall(r"<th\b[^>]*>(.*?)</th>", head, re.DOTALL)]
    if not end_of_head or (len(names) < 4 and least_width(table, len(names)) <= LETTERS_ON_A_PHONE):
        return table
    rows = re.split(r"(?=<tr\b)", body)
    for k, row in enumerate(rows):
        of_column = iter(names)
        rows[k] = re.sub(r"<td\b", lambda td: f'<td data-label="{next(of_column, "")}"', row)  # noqa: B023
    width = "many-columns most-columns" if len(names) > 7 else "many-columns"
    return head.replace('class="', f'class="{width} ', 1) + end_of_head + "".join(rows)


def least_width(table: str, columns: int) -> int:
    """The letters of the longest word of each column, added up."""
    cells = [cell for cell in re.findall(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", table, re.DOTALL)]
    words = [re.split(r"\s|<wbr>|-", unescape(re.sub(r"<(?!wbr)[^>]*>", "", cell))) for cell in cells]
    return sum(max((len(word) for cell in words[k::columns] for word in cell), default=0) for k in range(columns))


def line(html: str) -> str:
    text = re.sub(r"<[^>]*>", "", html)
    return f'<span class="line" style="--in:{min(16, len(text) - len(text.lstrip()))}ch">{html}\n</span>'


# The chapters


def list_of_chapters() -> str:
    """The table, and the same for the side bar, where the course project stands behind the last chapter."""
    files = "\n".join(
        [*(f"{c.number} {c.title} <../tutorials/{c.path.stem}>" for c in chapters()), "The course project <PROJECT>"]
    )
    return f"{table_of_chapters('../tutorials')}\n\n```{{toctree}}\n:hidden:\n:caption: Chapters\n\n{files}\n```"


def engine() -> str:
    """Our engine of the course project, folded. GitHub shows the page without it, and links to the file."""
    code = "```{literalinclude} ../exercises/engine/solution.py\n:language: python\n```"
    return f"\n<details><summary>Its code</summary>\n\n{code}\n\n</details>"


# The front page


def bricks() -> str:
    """A cache to play with: docs/static/live/bricks.js draws it."""
    controls = [
        {"size": "W", "name": "Beam width", "type": "number", "most": 8, "value": 4},
        {"size": "N", "name": "Positions of the prompt:", "type": "range", "most": 16, "value": 8},
        {"size": "T", "name": "Positions generated so far:", "type": "range", "most": 8, "value": 4},
    ]
    brick = held_bytes(make_step_of_published_model("gpt2", B=1, W=1, N=1, T=0), OWN)
    page = escape(json.dumps({"brick": brick, "controls": controls}))
    chapter = next(c.path.stem for c in chapters() if c.path.stem.endswith("deduplication"))
    return (
        f'<figure class="md-figure" data-live-bricks="{page}"><style>\n{STYLE}\n</style>'
        "<figcaption>Which bricks are copies?</figcaption>"
        '<p class="live-without">This figure needs JavaScript. The chapter '
        f'<a href="../tutorials/{chapter}.html">De-duplication</a> has pictures of it.</p></figure>'
    )


# The anatomy of a step


def anatomy() -> str:
    """The place of the page that computes a step: docs/static/anatomy/page.js fills it."""
    ops = {
        name: {"title": title, "href": f"ops/{name}.html", "links": links_of_box(name)} for name, title in BOXES.items()
    }
    return (
        f'<div class="mdf" data-anatomy="{escape(json.dumps({"ops": ops}))}"><style>\n{STYLE}\n</style>'
        '<p class="live-without">This page needs JavaScript. <code>minidecode explore</code> writes a page of a run, '
        'and <a href="guide/explore.html">its guide</a> has a picture of one.</p></div>'
    )


def links_of_box(name: str) -> list[tuple[str, str]]:
    """(what it is, address) of an op's chapter, its naive function and its kernel."""
    linking = [c.path.stem for c in chapters() if write_ops.explained_in(c.path, CATALOG[name])]
    chapter = min(linking, default=CHAPTERS.get(name))
    versions = {"naive": "naive", "kernel": "cuda"}
    return [
        (f"chapter {int(chapter[:2])}", f"../tutorials/{chapter}.html"),
        *((text, f"ops/{name}.html#{op_pages.anchor(name, version)}") for text, version in versions.items()),
    ]


# The ops


def list_of_ops() -> str:
    """The pages of the ops, for the side bar."""
    files = "\n".join(f"ops/{name}" for name in CATALOG)
    return f"```{{toctree}}\n:hidden:\n\n{files}\n```"


# The results


def results() -> str:
    """A section for each script that has recorded something: what it asks, on which machine, its tables, its pictures.

    Tables are those that the script wrote into benchmarks/README.md or into the page of the papers' tables.
    """
    pages = "".join((ROOT / p).read_text(encoding="utf-8") for p in ("benchmarks/README.md", "docs/tables.md"))
    sections, listed = [], set()
    for script in sorted((ROOT / "benchmarks").glob("*.py")):
        name = script.stem.replace("_", "-")
        files = sorted(p for p in RESULTS.iterdir() if re.match(rf"{name}(-cpu|-gpu)?[-.]", p.name))
        tables = re.findall(
            rf"<!-- ([\w-]+): written by benchmarks/{script.name} -->\n(.*?)<!-- end of \1 -->", pages, re.DOTALL
        )
        if not files and not tables:
            continue
        listed.update(files)
        asks = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))).split("\n\n")[0]
        lines = [f"## {name}", " ".join(asks.split()), ""]
        lines += [f"- {link_to(p)}: {machine_of(p)}" for p in files if p.suffix == ".json"]
        for _, table in tables:
            lines += ["", table]
        for picture in (p for p in files if p.suffix == ".svg"):
            lines += ["", *shown(picture)]
        sections.append("\n".join([*lines, "", f"Script: {link_to(script)}"]))
    others = [f"- {link_to(p)}" for p in sorted(set(RESULTS.iterdir()) - listed)]
    why = "Scores of texts. [The papers' tables](tables.md) and the cards of the models explain them."
    return "\n\n".join([*sections, *(["## Other records", why, "\n".join(others)] if others else [])])


def shown(picture: Path) -> list[str]:
    """A recorded picture, as wide as its smallest letters need, in a box that scrolls; and a link to it alone."""
    place, wide = f"../{picture.relative_to(ROOT).as_posix()}", legible_width(picture)
    width = [f":width: {wide}px"] if wide > ON_A_PHONE else []
    box = [
        "````{container} recorded",
        f"```{{image}} {place}",
        f":alt: The picture of {picture.stem}",
        *width,
        "```",
        "````",
    ]
    return [*box, "", f"[The full picture: {picture.name}]({place})"]


def legible_width(picture: Path) -> int:
    """The pixels that an SVG must be wide for its smallest letters to be SMALLEST high."""
    text = picture.read_text(encoding="utf-8")
    sizes = [float(size) for size in re.findall(r"font(?:-size=\"|(?:-size)?:[^;\"]*?)(\d+(?:\.\d+)?)(?=px|\")", text)]
    width = float(re.search(r'viewBox="\S+ \S+ (\S+) ', text)[1])
    return math.ceil(width * SMALLEST / min(sizes))


def link_to(path: Path) -> str:
    return f"[{path.name}](../{path.relative_to(ROOT).as_posix()})"


# The API


def api() -> str:
    """All public names: classes with what they have, functions, modules."""
    blocks = []
    for name in minidecode.__all__:
        thing = getattr(minidecode, name)
        kind = "class" if inspect.isclass(thing) else "module" if inspect.ismodule(thing) else "function"
        kind = "exception" if kind == "class" and issubclass(thing, Exception) else kind
        blocks.append(directive(kind, f"minidecode.{name}"))
    return "\n".join(blocks)


def directive(kind: str, name: str) -> str:
    members = "" if kind == "exception" else "   :members:\n" if kind in ("class", "module") else ""
    return f"```{{eval-rst}}\n.. auto{kind}:: {name}\n{members}```"


def plain_docstring(app, what, name, thing, options, lines: list[str]) -> None:
    """Docstrings are plain text: paragraphs stay paragraphs, what is indented is shown as it stands."""
    shown = []
    for chunk in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        if chunk.startswith(("    ", "\t")) or re.search(r"^ {2,}\S", chunk, re.MULTILINE):
            shown += ["::", "", *(f"    {line}" for line in chunk.splitlines()), ""]
        elif chunk:
            shown += [*(as_rst(line) for line in chunk.splitlines()), ""]
    lines[:] = shown


def as_rst(line: str) -> str:
    """What means something to reStructuredText escaped; `code` stays code."""
    parts = re.split(r"(`[^`]+`)", line.strip())
    return "".join(f"`{p}`" if k % 2 else re.sub(r"([\\*`|_:])", r"\\\1", p) for k, p in enumerate(parts))


PARTS = {
    "chapters": list_of_chapters, "engine": engine, "bricks": bricks, "anatomy": anatomy, "race": puzzle.as_markdown,
    "ops": list_of_ops, "results": results, "api": api,
}  # fmt: skip
GENERATED = [
    "docs/index",
    "docs/anatomy",
    "docs/results",
    "docs/api",
]  # read anew each time: no file tells of a change
