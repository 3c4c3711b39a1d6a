"""Writes what the chapters include: code, diffs, recorded results, each cell's output, and the figures.

    python tutorials/refresh.py              all chapters
    python tutorials/refresh.py 02           one
    python tutorials/refresh.py --check 02   writes nothing; names what is stale, and then ends with 1

docs/CHAPTERS.md says how a chapter asks for them.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import io
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

TUTORIALS = Path(__file__).resolve().parent
ROOT = TUTORIALS.parent
sys.path.insert(0, str(ROOT))  # the checkout's own package, whatever is installed

from minidecode.course.chapters import (  # noqa: E402
    AFTER_A_PREDICTION,
    Chapter,
    code_cells,
    find_chapter,
    table_of_chapters,
    without_outputs,
)
from minidecode.course.chapters import chapters as all_chapters  # noqa: E402
from minidecode.course.exercises.find import Exercise, exercises  # noqa: E402
from minidecode.course.figure import Figure  # noqa: E402
from minidecode.course.markers import fill_between_markers  # noqa: E402
from minidecode.course.project.stages import STAGES  # noqa: E402

# Code, by name


def source_of(place: str, docstring: str = "first") -> str:
    """The source of FILE:NAME or FILE:Class.method, found by its name. docstring: whole, first (line) or none."""
    file, _, name = place.partition(":")
    text = (ROOT / file).read_text(encoding="utf-8")
    node = found = ast.parse(text)
    for part in name.split("."):
        node = next((n for n in found.body if part in names_of(n)), None)
        if node is None:
            raise ValueError(f"{file} has no {name}")
        found = node
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    lines = text.splitlines()[first - 1 : node.end_lineno]
    if docstring != "whole" and isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
        quoted = node.body[0]
        begin, end = quoted.lineno - first, quoted.end_lineno - first + 1
        opening = lines[begin].rstrip().removesuffix('"""')
        lines[begin:end] = [f'{opening}"""'] if docstring == "first" else []
    return textwrap.dedent("\n".join(lines)).rstrip()


def names_of(node: ast.AST) -> list[str]:
    """What a statement gives a name to: a function, a class, or variables."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


def options(asked: str) -> tuple[list[str], dict[str, str]]:
    """`a.py:f a.py:g docstring=none` -> the places, the options."""
    words = asked.split()
    return [w for w in words if "=" not in w], dict(w.split("=", 1) for w in words if "=" in w)


def include(asked: str) -> str:
    places, how = options(asked)
    folded = how.pop("fold", "no") == "yes"
    code = "\n\n\n".join(source_of(place, **how) for place in places)
    files = dict.fromkeys(place.partition(":")[0] for place in places)
    shown = f"```python\n{code}\n```\n*{' and '.join(f'[{f}](../{f})' for f in files)}*"
    if not folded:
        return shown
    names = ", ".join(f"<code>{place.partition(':')[2]}</code>" for place in places)
    return f"<details><summary>The code of {names}</summary>\n\n{shown}\n\n</details>"


def diff(asked: str) -> str:
    """What changes from one function to another, the whole of both by default."""
    (a, b), how = options(asked)
    context = int(how.pop("context", 1000))
    old, new = (source_of(place, **how).splitlines() for place in (a, b))
    lines = list(difflib.unified_diff(old, new, lineterm="", n=context))[3:]  # not the names of files, nor the places
    file = b.partition(":")[0]
    return "\n".join(["```diff", *("..." if line.startswith("@@") else line for line in lines), "```",
                      f"*[{file}](../{file})*"])  # fmt: skip


# Recorded results


def table(rows: Iterable[dict], **columns: str) -> str:
    """A Markdown table: column name (underscores become spaces) -> a key of the rows, or a format of them."""
    heads = [name.replace("_", " ") for name in columns]
    lines = [heads, ["---"] * len(heads)]
    for row in rows:
        lines.append([f.format(**row) if "{" in f else str(row[f]) for f in columns.values()])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def pick(rows: Iterable[dict], **where) -> list[dict]:
    """The rows of which all of that is true; never none of them."""
    found = [r for r in rows if all(r[k] == v for k, v in where.items())]
    if not found:
        raise ValueError(f"no row has {where}")
    return found


def result(asked: str) -> str:
    """FILE.json EXPRESSION: the expression knows `data`, `table` and `pick`."""
    file, _, expression = asked.partition(" ")
    data = json.loads((ROOT / file).read_text(encoding="utf-8"))
    return str(eval(expression, {"data": data, "table": table, "pick": pick}))


WRITERS: dict[str, Callable[[str], str]] = {"include": include, "diff": diff, "result": result}

# Cells


def run_cells(chapter: Chapter, text: str) -> tuple[str, dict[str, str]]:
    """(text with the output of each cell below it, figures by file name): all cells in one namespace, top to bottom."""
    namespace: dict = {"__name__": "__main__"}
    pieces, figures, done = [], {}, 0
    for number, cell in enumerate(code_cells(text), 1):
        output = run_cell(cell.code, f"<{chapter.path.stem}, cell {number}>", namespace)
        shown = []
        for part in output:
            if "volatile" in cell.tags:
                continue  # what readers see is their own
            if isinstance(part, Figure):
                if twice := set(figures) & set(part.files()):
                    raise ValueError(f"{chapter.path.name}: two figures are called {sorted(twice)[0]}")
                figures |= part.files()
                shown.append(in_markdown(part))
            elif part.strip():
                shown.append(f"```text\n{tidy(part)}\n```")
        pieces.append(text[done : cell.end])
        if shown:
            recorded = "\n\n".join(shown)
            if "hide-output" in cell.tags:
                recorded = f"<details><summary>{AFTER_A_PREDICTION}</summary>\n\n{recorded}\n\n</details>"
            pieces.append(f"\n\n<!-- output: -->\n{recorded}\n<!-- end of output -->")
        done = cell.end
    return "".join([*pieces, text[done:]]), figures


def run_cell(code: str, name: str, namespace: dict) -> list:
    """What it prints, then its last expression's value as a notebook would show it."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)  # for inspect, and the emulator
    tree, printed, last = ast.parse(code, name), io.StringIO(), None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        value = eval(compile(last, name, "eval"), namespace) if last else None
    shown = [] if value is None else [value if isinstance(value, Figure) else repr(value)]
    return [printed.getvalue(), *shown]


def tidy(output: str) -> str:
    return "\n".join(line.rstrip() for line in output.strip("\n").splitlines())


def in_markdown(figure: Figure) -> str:
    """The caption, then an image for each frame: side by side where there is room."""
    images = zip(figure.files(), figure.alts(), strict=True)
    return f"*{figure.caption}*\n\n" + "\n".join(f"![{alt}](figures/{name})" for name, alt in images)


# A chapter


def refreshed(chapter: Chapter) -> tuple[str, dict[str, str]]:
    """(the chapter's text, its figures by file name), as they should be."""
    text = without_outputs(chapter.text)
    if re.search(r"^<!-- result:[^\n]*<!-- end of result -->", text, re.MULTILINE):
        raise ValueError(f"{chapter.path.name}: a result begins a line of a sentence, which ends its paragraph")
    for kind, write in WRITERS.items():
        text, _ = fill_between_markers(text, kind, write)
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as empty:  # so that no cell leans on where it runs, or leaves anything
        os.chdir(empty)
        try:
            return run_cells(chapter, text)
        finally:
            os.chdir(home)


def refresh(chapter: Chapter, check: bool) -> list[str]:
    """Writes the chapter and its figures; returns what was stale, the first differing lines with it."""
    text, figures = refreshed(chapter)
    folder = chapter.path.parent / "figures"
    wanted = {chapter.path: text} | {folder / name: svg for name, svg in figures.items()}
    stray = [p for p in folder.glob(f"{chapter.number}-*.svg") if p not in wanted]
    stale = [f"{p.name}: no cell of the chapter draws it" for p in stray]
    for path, new in wanted.items():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old != new:
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "is", "should be", n=0, lineterm="")
            stale.append(f"{path.name} is stale\n" + "\n".join(list(lines)[:12]))
        if old != new and not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(new, encoding="utf-8", newline="\n")
    for path in [] if check else stray:
        path.unlink()
    return stale


def list_in_readme() -> None:
    """The table of the chapters in tutorials/README.md."""
    path = ROOT / "tutorials" / "README.md"
    text, _ = fill_between_markers(path.read_text(encoding="utf-8"), "chapters", lambda _: table_of_chapters("."))
    path.write_text(text, encoding="utf-8", newline="\n")


def syllabi() -> str:
    """The courses of tutorials/syllabi.toml, a table for each."""
    listed = tomllib.loads((TUTORIALS / "syllabi.toml").read_text(encoding="utf-8"))["syllabus"]
    return "\n\n".join(table_of_syllabus(**syllabus) for syllabus in listed)


def table_of_syllabus(hours: int, chapters: list[str] | str, in_class: list[int]) -> str:
    """A row for each chapter: its minutes, the exercises in class, those at home, the stages of the project."""
    wanted = [c for c in all_chapters() if chapters == "all" or c.path.stem[3:] in chapters]
    due = [e for e in exercises().values() if e.text.hours is not None and e.text.hours <= hours]
    rows, in_class_minutes, home_minutes = [], 0, 0
    for c in wanted:
        here = [e for e in due if e.text.chapter == c.number and e.number in in_class]
        home = [e for e in due if e.text.chapter == c.number and e.number not in in_class]
        engine = [str(stage.number) for stage in STAGES.values() if stage.chapter == c.number]
        rows.append({"title": f"[{c.number} {c.title}](../tutorials/{c.path.name})", "minutes": c.minutes[0],
                     "here": with_minutes(here), "home": with_minutes(home), "engine": ", ".join(engine)})  # fmt: skip
        in_class_minutes += c.minutes[0] + sum(e.text.minutes for e in here)
        home_minutes += sum(e.text.minutes for e in home)
    columns = {"chapter": "title", "its_minutes": "minutes", "exercises_in_class": "here", "homework": "home"}
    total = f"**{hours} hours**: {in_class_minutes} minutes in class, {home_minutes} minutes of homework."
    return f"{total}\n\n{table(rows, **columns, your_engine='engine')}"


def with_minutes(found: list[Exercise]) -> str:
    """ "4 (20 min), 7 (20 min)" """
    return ", ".join(f"{e.number} ({e.text.minutes} min)" for e in found)


def table_of_stages() -> str:
    """The stages of the course project, with what a student writes."""
    titles = {c.number: f"[{c.number} {c.title}](../tutorials/{c.path.name})" for c in all_chapters()}
    rows = [{"stage": s.number, "title": s.title, "functions": ", ".join(f"`{name}`" for name in s.functions),
             "chapter": titles[s.chapter]} for s in STAGES.values()]  # fmt: skip
    return table(rows, stage="stage", what="title", you_write="functions", after_chapter="chapter")


def fill_pages() -> None:
    """The tables of docs/teaching.md and docs/PROJECT.md."""
    for name, kind, written in (("teaching.md", "syllabi", syllabi), ("PROJECT.md", "stages", table_of_stages)):
        path = ROOT / "docs" / name
        text, _ = fill_between_markers(path.read_text(encoding="utf-8"), kind, lambda _, written=written: written())
        path.write_text(text, encoding="utf-8", newline="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="*", help="their numbers; all by default")
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if anything is stale")
    args = parser.parse_args()
    wanted = [find_chapter(name) for name in args.chapters] or all_chapters()
    if len(wanted) > 1:  # a process for each: nothing that one leaves behind reaches the next
        again = [sys.executable, __file__, *(["--check"] if args.check else [])]
        return max([subprocess.run([*again, chapter.number]).returncode for chapter in wanted])
    stale = refresh(wanted[0], args.check)
    if not args.check:
        list_in_readme()
        fill_pages()
    print("\n".join(stale) or f"{wanted[0].path.name}: fresh")
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
