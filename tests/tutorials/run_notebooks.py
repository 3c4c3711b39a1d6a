"""Runs the chapters' notebooks by nbclient, with the Python that runs this script and the minidecode that it has.

    python tests/tutorials/run_notebooks.py            every chapter, and the cells that judge exercises
    python tests/tutorials/run_notebooks.py 02 04      these chapters alone

No cell may fail, and each cell that judges an exercise must call it not begun. The cells of some exercises are also run
with a known mistake and with a solution in them. Needs the extra notebook.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from minidecode.course.chapters import Chapter, chapters, find_chapter
from minidecode.course.exercises.find import find
from minidecode.course.notebook import notebook

EXERCISES = Path(__file__).resolve().parents[2] / "exercises"
ANSWERED = {"15": "last_window_lost", "16": "one_block", "2": "forgot_output_matrix"}  # exercise -> a known mistake
SECONDS = 600  # for one cell: the first one of `fast` compiles


def run(book: nbformat.NotebookNode) -> None:
    """Fills in the outputs. Raises CellExecutionError where a cell fails."""
    with tempfile.TemporaryDirectory() as folder:
        limits = {"timeout": SECONDS, "startup_timeout": SECONDS, "iopub_timeout": SECONDS}  # of a busy machine
        NotebookClient(book, kernel_name="python3", resources={"metadata": {"path": folder}}, **limits).execute()


def printed(cell: nbformat.NotebookNode) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def run_chapter(chapter: Chapter) -> str:
    """Runs a chapter as a student who has written nothing; a line about it."""
    began, book = time.perf_counter(), nbformat.reads(notebook(chapter), as_version=4)
    nbformat.validate(book)
    run(book)
    verdicts = [printed(cell) for cell in book.cells if "course.check(" in cell.source]
    for verdict in verdicts:
        assert verdict.startswith("Not begun"), verdict
    seconds = time.perf_counter() - began
    return f"{chapter.path.stem}: {len(book.cells)} cells, {len(verdicts)} exercises not begun, {seconds:.0f} s"


def run_answers(number: str, mistake: str) -> str:
    """Runs an exercise's cells as they are, with a known mistake, and with a solution; a line about it."""
    exercise = find(number)
    folder = EXERCISES / Path(exercise.file_name).stem
    answers = {
        "Not begun": exercise.start(7),
        f'"{mistake.replace("_", " ")}"': exercise.vary_source(folder / "wrong" / f"{mistake}.py", 7),
        "Solved": exercise.vary_source(folder / "solution.py", 7 if exercise.text.kind != "P" else 8),
    }
    book = nbformat.v4.new_notebook()
    for source in answers.values():
        check = f"from minidecode import course\ncourse.check({number})"
        book.cells += [nbformat.v4.new_code_cell(source), nbformat.v4.new_code_cell(check)]
    run(book)
    for expected, cell in zip(answers, book.cells[1::2], strict=True):
        assert expected in printed(cell), f"exercise {number}: {expected} is not said, but: {printed(cell)}"
    return f"exercise {number}: {', '.join(answers)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="*", help="their numbers; all by default, and the exercises' answers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="notebooks that run at a time")
    args = parser.parse_args()
    wanted = [find_chapter(name) for name in args.chapters] or chapters()
    with ThreadPoolExecutor(args.jobs) as pool:
        lines = [pool.submit(run_chapter, chapter) for chapter in wanted]
        if not args.chapters:
            lines += [pool.submit(run_answers, *answered) for answered in ANSWERED.items()]
        for line in lines:
            print(line.result(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
