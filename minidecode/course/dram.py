"""Launches beside the memory of the GPU: an arrow for each pass over a whole array, there or back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..emulator.memory import LOAD, SHARED_BASE
from ..emulator.run import Run
from .canvas import LETTER, Canvas
from .figure import Figure, scrub

BOX, MEMORY, WIDTH = (8, 160), (396, 464), 472  # left and right of the launches and of DRAM, in pixels
LINE, BETWEEN, TOP = 17, 7, 46  # heights: of an arrow, between launches, above the first


class Launch(NamedTuple):
    """One launch: arrays that it read and wrote, each by how many times; smaller arrays are left out."""

    name: str
    reads: Mapping[str, int]
    writes: Mapping[str, int]


def launch_of(run: Run, size: int) -> Launch:
    """What an emulated run did to arrays of `size` numbers: how many passes over each, loads and stores.

    Two loads of a number by the same thread in one line count once, as a compiler makes them one.
    """
    journal, traffic = run._launch.journal, run._launch.analysis.traffic
    counts = {True: Counter(), False: Counter()}
    for kept in traffic.kept:
        line_of = {site: journal.place_of_site(site) for site in np.unique(kept.site).tolist()}
        lines = {place: k for k, place in enumerate(dict.fromkeys(line_of.values()))}
        line = np.array([lines[line_of[s]] for s in kept.site.tolist()])
        is_load = journal.access_kinds(kept.site) == LOAD
        once = np.unique(np.stack([kept.block, kept.thread, kept.address, line, is_load]), axis=1)
        for memory in (m for m in journal.memories if m.start < SHARED_BASE):
            inside = (once[2] >= memory.start) & (once[2] < memory.start + memory.nbytes)
            if memory.nbytes == size * memory.dtype.itemsize:
                for load in (True, False):
                    counts[load][memory.name] += int((inside & (once[4] == load)).sum())
    passes = {load: {name: round(n / size) for name, n in loaded.items() if n} for load, loaded in counts.items()}
    return Launch(run.name, passes[True], passes[False])


def number_of_arrows(launches: Sequence[Launch]) -> int:
    """Passes over whole arrays, there and back."""
    return sum(sum(launch.reads.values()) + sum(launch.writes.values()) for launch in launches)


def draw_launches(versions: Mapping[str, Sequence[Launch]], *, name: str, caption: str, alt: str) -> Figure:
    """A frame for each version: its launches on the left, DRAM on the right, an arrow for each pass over an array."""
    height = max(map(_height_of_frame, versions.values()))
    frames = [(_label_frame(title, done), _draw_frame(title, done, height)) for title, done in versions.items()]
    return scrub(name, frames, caption=caption, alt=alt)


def _label_frame(title: str, done: Sequence[Launch]) -> str:
    many = f"{len(done)} launch{'es' * (len(done) != 1)}"
    return f"{title}: {many}, {number_of_arrows(done)} passes over whole arrays."


def _list_arrows(launch: Launch) -> list[tuple[str, bool]]:
    """(array, whether it comes from memory), each as often as it was."""
    return [(a, True) for a, n in launch.reads.items() for _ in range(n)] + [
        (a, False) for a, n in launch.writes.items() for _ in range(n)
    ]


def _height_of_frame(done: Sequence[Launch]) -> int:
    return TOP + sum(LINE * max(1, len(_list_arrows(d))) + BETWEEN for d in done) + 8


def _draw_frame(title: str, done: Sequence[Launch], height: int) -> Canvas:
    canvas = Canvas(WIDTH, height)
    canvas.text(BOX[0], 20, title, bold=True)
    y = TOP
    canvas.cell(MEMORY[0], TOP - 14, "pale", width=MEMORY[1] - MEMORY[0], height=height - TOP + 8)
    canvas.text(sum(MEMORY) / 2, TOP + 4, "DRAM", anchor="middle", role="on-pale", bold=True)
    for launch in done:
        arrows = _list_arrows(launch)
        tall = LINE * max(1, len(arrows))
        canvas.cell(BOX[0], y, "mid", launch.name, width=BOX[1] - BOX[0], height=tall)
        for k, (array, comes) in enumerate(arrows):
            _draw_pass(canvas, y + LINE * (k + 0.5), array, comes)
        y += tall + BETWEEN
    return canvas


def _draw_pass(canvas: Canvas, y: float, array: str, comes: bool) -> None:
    """One pass, its name in the middle; what is written is drawn thick as well."""
    middle, half = (BOX[1] + MEMORY[0]) / 2, len(array) * LETTER / 2 + 4
    left, right = (BOX[1] + 3, middle - half), (middle + half, MEMORY[0] - 3)
    canvas.text(middle, y + 4.5, array, anchor="middle")
    if comes:
        canvas.line(right[1], y, right[0], y)
        canvas.line(left[1], y, left[0], y, arrow=True)
    else:
        canvas.line(left[0], y, left[1], y, thick=2)
        canvas.line(right[0], y, right[1], y, thick=2, arrow=True)
