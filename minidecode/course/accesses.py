"""What one block of an emulated run did to one array, barrier by barrier: a frame for each epoch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..emulator.memory import LOAD
from ..emulator.run import Run
from ..errors import InputError
from .canvas import Canvas
from .figure import Figure, scrub

CELL, LEFT, TOP = 28, 12, 50  # pixels


class Access(NamedTuple):
    """One access of one thread."""

    epoch: int  # how many barriers of its block were passed before
    thread: int  # within its block
    writes: bool
    index: tuple[int, ...]
    line: int  # of the file


def traced_accesses(run: Run, array_name: str, block: int = 0) -> list[Access]:
    """What a block of a traced run did to an array, in the order in which it ran. Raises InputError if nothing."""
    if not run.traced:
        raise InputError(f"{run.name} was not traced: emulate it without trace=False")
    kept, journal = run._launch.analysis.traffic.kept_of_block(block), run._launch.journal
    accesses = []
    for memory in (m for m in journal.memories if m.name == array_name and kept):
        inside = np.flatnonzero((kept.address >= memory.start) & (kept.address < memory.start + memory.nbytes))
        writes = journal.access_kinds(kept.site[inside]) != LOAD
        places = np.unravel_index((kept.address[inside] - memory.start) // memory.dtype.itemsize, memory.shape)
        lines = {site: journal.place_of_site(site).line for site in set(kept.site[inside].tolist())}
        indices = zip(*map(np.ndarray.tolist, places), strict=True)
        columns = (kept.epoch[inside], kept.thread[inside], writes, indices, kept.site[inside])
        accesses += [Access(int(e), int(t), bool(w), i, lines[int(s)]) for e, t, w, i, s in zip(*columns, strict=True)]
    if not accesses:
        stopped = ": an error stopped the run before" if run.stopped else ""
        raise InputError(f"block {block} of {run.name} touched no array called {array_name}{stopped}")
    return accesses


def draw_epochs(
    run: Run, array: str, *, name: str, caption: str, alt: str, block: int = 0, most: int = 48, columns: int = 12
) -> Figure:
    """An array of one axis (as shared memory is), its first `most` elements, a frame for each epoch.

    An epoch is what a block does between two barriers. A race that the run found is drawn where it was.
    """
    done = traced_accesses(run, array, block)
    size = min(most, 1 + max(a.index[0] for a in done))
    has_race = any(f.kind == "race" and f.detail["element"].startswith(f"{array}[") for f in run.errors)
    frames = []
    for epoch in range(1 + max(a.epoch for a in done)):
        now = [a for a in done if a.epoch == epoch]
        frames.append((_label_of_epoch(epoch, now), _frame_of_epoch(array, size, columns, now, has_race)))
    return scrub(name, frames, caption=caption, alt=alt)


def _label_of_epoch(epoch: int, now: list[Access]) -> str:
    where = "Before the first barrier" if epoch == 0 else f"After barrier {epoch}"
    parts = [
        f"{len({a.index for a in deed})} elements {word} by {len({a.thread for a in deed})} threads"
        for word, deed in (("written", [a for a in now if a.writes]), ("read", [a for a in now if not a.writes]))
        if deed
    ]
    return f"{where}: {', '.join(parts) or 'not touched'}."


def _frame_of_epoch(array: str, size: int, columns: int, now: list[Access], has_race: bool) -> Canvas:
    rows = -(-size // columns)
    canvas = Canvas(2 * LEFT + CELL * columns, TOP + CELL * rows + 40)
    canvas.text(LEFT, 20, array, bold=True)
    canvas.text(LEFT, 40, "in a cell: which element", role="faint")
    for k in range(size):
        mine = [a for a in now if a.index == (k,)]
        read, written = any(not a.writes for a in mine), any(a.writes for a in mine)
        fill = {(0, 0): "paper", (1, 0): "mid", (0, 1): "mark", (1, 1): "strong"}[read, written]
        threads = sorted({a.thread for a in mine})
        if has_race and written and len(threads) > 1:
            fill = "bad"
        tip = f"{array}[{k}]: threads {', '.join(map(str, threads))}" if threads else f"{array}[{k}]: not touched"
        place = LEFT + CELL * (k % columns), TOP + CELL * (k // columns)
        canvas.cell(*place, fill, k, width=CELL, height=CELL, tip=tip)
    meanings = {"mid": "read", "mark": "written", "strong": "both"} | ({"bad": "race"} if has_race else {})
    canvas.legend(LEFT, TOP + CELL * rows + 26, meanings)
    return canvas
