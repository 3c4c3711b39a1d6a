"""`minidecode tutorial`: the chapters listed, or one of them as a notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, quoted
from .flags import AsJson, Debug, output_flag, refuse_given_options
from .whole_file import whole_file


def tutorial(
    context: typer.Context,
    chapter: Annotated[str, typer.Argument(help="Its number or a part of its name; without one, all are listed.")] = "",
    output: Annotated[Path | None, output_flag("The notebook; NN_name.ipynb by default.")] = None,
    student: Annotated[str | None, typer.Option("--student", help="Draw the exercises' variations from this name.",
                                                show_default=False)] = None,
    as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """List the chapters of the course, or write one as a notebook."""
    from ..course.chapters import find_chapter
    from ..course.notebook import notebook

    if not chapter:
        refuse_given_options(context, ("output", "student"), "without a chapter")
        _list_chapters(as_json)
        return
    its_chapter = find_chapter(chapter)
    path = output or Path(f"{its_chapter.path.stem}.ipynb")
    if path.exists():
        raise InputError(f"{path} is there already, perhaps with your work in it: give another name with --output")
    text = notebook(its_chapter, student)
    with whole_file(path) as file:
        file.write(text)
    print(json.dumps({"chapter": its_chapter.number, "file": str(path)}) if as_json else f"wrote {quoted(path)}")


def _list_chapters(as_json: bool) -> None:
    from ..course.chapters import chapters

    rows = [
        {"chapter": c.number, "title": c.title, "minutes": c.minutes[0], "with_exercises": c.minutes[1],
         "file": str(c.path)}
        for c in chapters()
    ]  # fmt: skip
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    width = max(len(row["title"]) for row in rows)
    for row in rows:
        times = f"{row['minutes']} minutes, {row['with_exercises']} with exercises"
        print(f"{row['chapter']}  {row['title']:<{width}}  {times}")
