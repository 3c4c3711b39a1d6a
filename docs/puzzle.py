"""The race to find on the front page: a kernel of the labelled suite, and what two of its threads did in a run."""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from dataclasses import dataclass
from html import escape
from pathlib import Path

import minidecode as md
from minidecode.course.accesses import traced_accesses
from minidecode.emulator.memory import LOAD

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "emulator"))
from labelled_kernels import KERNELS

KERNEL, ARRAY, LAST_EPOCH = "two_buffers_that_change_too_seldom", "s", 2


@dataclass(frozen=True)
class Step:
    """One access; lines count from `def` on, and epochs are what lies between two barriers."""

    thread: int
    line: int
    writes: bool
    element: str
    epoch: int


@dataclass(frozen=True)
class Puzzle:
    """steps: what the two threads did at first, in the order of the run. found: the race that the emulator reports."""

    source: str
    why: str
    message: str
    steps: tuple[Step, ...]
    found: tuple[Step, Step]


def puzzle() -> Puzzle:
    """Emulates the kernel as its label launches it; the two threads are those that the emulator names."""
    labelled = next(k for k in KERNELS if k.name == KERNEL)
    source, first_line = source_of(labelled.kernel)
    run = md.emulate(labelled.kernel, **labelled.options)[labelled.launch](*labelled.arguments())
    error = next(e for e in run.errors if e.kind == "race")
    race = error.detail["race"]
    threads = {race.first.thread.index, race.second.thread.index}
    steps = tuple(
        Step(a.thread, a.line - first_line + 1, a.writes, f"{ARRAY}[{', '.join(map(str, a.index))}]", a.epoch)
        for a in traced_accesses(run, ARRAY)
        if a.thread in threads and a.epoch <= LAST_EPOCH
    )
    found = tuple(
        Step(a.thread.index, place.line - first_line + 1, a.kind != LOAD, error.detail["element"], a.epoch)
        for a, place in zip((race.first, race.second), error.places, strict=True)
    )
    return Puzzle(source, labelled.why, error.message, steps, found)


def source_of(kernel) -> tuple[str, int]:
    """A kernel's text from `def` on, and the line of its file where that is."""
    function = getattr(kernel, "py_func", kernel)
    lines, first = inspect.getsourcelines(function)
    skipped = ast.parse(textwrap.dedent("".join(lines))).body[0].lineno - 1
    return textwrap.dedent("".join(lines[skipped:])).rstrip(), first + skipped


def as_markdown() -> str:
    """The kernel, and the table; without JavaScript it can be read, and the answer is folded below it."""
    p = puzzle()
    page = {"accesses": [vars(s) for s in p.steps], "why": p.why}
    code = f"```{{code-block}} python\n:linenos:\n\n{p.source}\n```"
    head = '<thead><tr><th scope="col">thread</th><th scope="col">line</th><th scope="col">access</th></tr></thead>'
    return "\n".join([
        code, "", f'<figure class="md-figure live-race" data-live-race="{escape(json.dumps(page))}">',
        "<figcaption>Which two accesses race?</figcaption>",
        f'<table class="live-table">{head}<tbody>{"".join(rows(p.steps))}</tbody></table>',
        f"<details><summary>What the emulator says</summary><p>{escape(p.message)}</p></details>",
        "</figure>",
    ])  # fmt: skip


def rows(steps: tuple[Step, ...]) -> list[str]:
    """A row for each access, and one for each barrier that lies between two."""
    found = []
    for k, s in enumerate(steps):
        if k and s.epoch > steps[k - 1].epoch:
            found.append('<tr class="live-barrier"><td colspan="3">cuda.syncthreads(): all threads meet here</td></tr>')
        verb = "writes" if s.writes else "reads"
        found.append(f'<tr data-access="{k}"><td>{s.thread}</td><td>{s.line}</td><td>{verb} {s.element}</td></tr>')
    return found
