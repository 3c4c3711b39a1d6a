"""A chapter as a notebook: its text and cells; and each exercise as a cell to write in and a cell that judges it."""

from __future__ import annotations

import json
import re
from typing import Any

from .chapters import CELL, Chapter, code_cells, without_outputs
from .exercises.exercise import seed_from_name
from .exercises.find import exercises

FRONT_MATTER = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
ON_COLAB = """\
**On Colab**, run this cell first. Put your repository's address in place of `HOST/YOU`. The cell installs minidecode
from there, unless it is installed already, and prints what this machine has.
"""
INSTALL = """\
import importlib.util
import shutil
import subprocess
import sys

REPOSITORY = "git+https://HOST/YOU/minidecode"


def run(*words):
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    print(done.stdout, done.stderr)
    if done.returncode and words[0] == "pip":
        raise SystemExit("pip failed: its last lines say why")


if importlib.util.find_spec("minidecode") is None:
    run("pip", "install", "--quiet", f"minidecode @ {REPOSITORY}")
run("minidecode", "doctor")
"""
ON_A_T4 = """\
**On a T4** (*Runtime, Change runtime type*), run this cell too: it adds the packages for the GPU, generates on it, and
checks and times a kernel. Without a GPU it does nothing, and the rest of this chapter needs none.
"""
T4 = """\
if shutil.which("nvidia-smi"):
    run("pip", "install", "--quiet", f"minidecode[cu12] @ {REPOSITORY}")
    run("minidecode", "generate", "Fellow citizens,", "--device", "cuda", "--receipt")
    run("minidecode", "compare", "ngram")
"""
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
HOW = """\
## The exercises, here

Write in the first cell and run it. Then run the cell below it, which says what `minidecode exercise check` would say.
Each check also writes your answer to `my_exercises/`, as a file that you can hand in. For a hint, run
`!minidecode exercise hint NUMBER` in a cell of your own.
"""


def notebook(chapter: Chapter, student: str | None = None) -> str:
    """The text of an .ipynb file, without outputs. student: a name, from which the exercises' variations are drawn."""
    first = _colab_cells() if chapter.number == "00" else []
    parts = [
        *first,
        *_text_cells(chapter),
        *_exercise_cells(chapter, 0 if student is None else seed_from_name(student)),
    ]
    for number, part in enumerate(parts):
        part["id"] = f"{chapter.path.stem}-{number}"
    return json.dumps({"cells": parts, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def _colab_cells() -> list[dict[str, Any]]:
    """What the first notebook begins with; the chapter's page, which is read elsewhere, has none of it."""
    return [_markdown_cell(ON_COLAB), _code_cell(INSTALL), _markdown_cell(ON_A_T4), _code_cell(T4)]


def _text_cells(chapter: Chapter) -> list[dict[str, Any]]:
    text = FRONT_MATTER.sub("", without_outputs(chapter.text))
    between = CELL.split(text)[:: CELL.groups + 1]
    parts = [_markdown_cell(between[0])]
    for cell, prose in zip(code_cells(text), between[1:], strict=True):
        parts += [_code_cell(cell.code, cell.tags), _markdown_cell(prose)]
    return [part for part in parts if part["source"]]


def _exercise_cells(chapter: Chapter, seed: int) -> list[dict[str, Any]]:
    of_chapter = [exercise for exercise in exercises().values() if exercise.text.chapter == chapter.number]
    parts = [_markdown_cell(HOW)] if of_chapter else []
    for exercise in of_chapter:
        parts += [
            _markdown_cell(f"### Exercise {exercise.number}: {exercise.text.title}"),
            _code_cell(exercise.start(seed)),
            _code_cell(f"from minidecode import course\n\ncourse.check({exercise.number})"),
        ]
    return parts


def _markdown_cell(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _split_lines(text)}


def _code_cell(text: str, tags: tuple[str, ...] = ()) -> dict[str, Any]:
    metadata: dict[str, Any] = {"tags": list(tags)} if tags else {}
    if "hide-input" in tags:
        metadata["jupyter"] = {"source_hidden": True}
    source = _split_lines(text)
    return {"cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": [], "source": source}


def _split_lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)
