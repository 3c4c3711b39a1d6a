"""One array as memory strips, one for each epoch of a block, and who reads whose element, from an emulated run."""

from __future__ import annotations

from ..emulator.run import Run
from .accesses import Access, traced_accesses
from .canvas import Canvas
from .figure import Figure, scrub

LEFT, TOP, CELL, GAP = 74, 34, 26, 34  # pixels
WIDEST = 390  # of a strip


def draw_strips(run: Run, array: str, *, name: str, caption: str, alt: str, block: int = 0, most: int = 16) -> Figure:
    """A frame for each epoch more: a strip of the first `most` elements of an array of one axis.

    An epoch is what a block does between two barriers. A line goes from each element that a thread reads to the ones
    that it writes in the same epoch. Where the run found a race, an element that one thread writes and another touches
    in one epoch is crossed.
    """
    done = traced_accesses(run, array, block)
    size = min(most, 1 + max(a.index[0] for a in done))
    epochs = [[a for a in done if a.epoch == e and a.index[0] < size] for e in range(1 + max(a.epoch for a in done))]
    has_race = any(f.kind == "race" and f.detail["element"].startswith(f"{array}[") for f in run.errors)
    races = [_unordered_elements(now) if has_race else set() for now in epochs]
    frames = [
        (_label_frame(e, epochs[e], races[e]), _draw_frame(array, size, epochs, races, has_race, shown=e + 1))
        for e in range(len(epochs))
    ]
    return scrub(name, frames, caption=caption, alt=alt)


def _unordered_elements(now: list[Access]) -> set[int]:
    """Elements that one thread writes and another touches."""
    return {k for k, a in ((a.index[0], a) for a in now if a.writes)
            if any(b.index[0] == k and b.thread != a.thread for b in now)}  # fmt: skip


def _label_frame(epoch: int, now: list[Access], races: set[int]) -> str:
    where = "before the first barrier" if epoch == 0 else f"after barrier {epoch}"
    read, written = ({a.index for a in now if a.writes == w} for w in (False, True))
    deeds = [f"{len(done)} {word}" for done, word in ((read, "read"), (written, "written")) if done]
    wrong = f"; a race on {len(races)}" if races else ""
    return f"Epoch {epoch}, {where}, {_threads_in_words(now)}: {', '.join(deeds)}{wrong}."


def _threads_in_words(now: list[Access]) -> str:
    many = len({a.thread for a in now})
    return f"{many} thread{'s' * (many != 1)}"


def _draw_frame(array: str, size: int, epochs, races, has_race: bool, shown: int) -> Canvas:
    width = min(48, WIDEST // size)
    canvas = Canvas(LEFT + width * size + 14, TOP + (CELL + GAP) * len(epochs) + 18)
    canvas.text(LEFT, 20, f"{array}: which element, epoch by epoch", bold=True)
    for e, now in enumerate(epochs[:shown]):
        y = TOP + (CELL + GAP) * e
        canvas.text(8, y + 18, f"epoch {e}", bold=e == shown - 1)
        for k in range(size):
            mine = [a for a in now if a.index == (k,)]
            read, written = any(not a.writes for a in mine), any(a.writes for a in mine)
            fill = {(0, 0): "paper", (1, 0): "mid", (0, 1): "mark", (1, 1): "strong"}[read, written]
            threads = ", ".join(str(t) for t in sorted({a.thread for a in mine}))
            tip = f"{array}[{k}]: {f'threads {threads}' if threads else 'not touched'}"
            canvas.cell(LEFT + width * k, y, "bad" if k in races[e] else fill, k, width=width, height=CELL, tip=tip)
        for source, target in _handed_on_elements(now) if e else ():
            x1, x2 = (LEFT + width * (k + 0.5) for k in (source, target))
            canvas.line(x1, y - GAP, x2, y, arrow=source != target)
    meanings = {"mid": "read", "mark": "written", "strong": "both"} | ({"bad": "race"} if has_race else {})
    canvas.legend(LEFT, TOP + (CELL + GAP) * len(epochs) + 4, meanings)
    return canvas


def _handed_on_elements(now: list[Access]) -> list[tuple[int, int]]:
    """(read, written) by one thread in one epoch, each pair once."""
    return sorted({
        (a.index[0], b.index[0])
        for a in now if not a.writes
        for b in now if b.writes and b.thread == a.thread
    })  # fmt: skip
