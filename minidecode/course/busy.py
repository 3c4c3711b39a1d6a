"""Who is busy when: a lane for each thread, a bar for each batch, several runs to one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..lines.pipeline import Span
from ..lines.timeline import threads_of
from .canvas import LETTER, MOST_WIDE, Canvas
from .figure import Figure, single

LEFT, LANE, BAR = 8, 46, 22  # pixels
FILL = {"read": "pale", "tokenize": "pale", "generate": "strong", "post-process": "mark", "write": "paper"}
CALLED = {"prefetch": "reads ahead", "caller": "calling thread"}


def draw_lanes(runs: Mapping[str, Sequence[Span]], *, name: str, caption: str, alt: str, unit: str = "s") -> Figure:
    """A panel for each run, its time from 0 to the end of the longest.

    runs: what it is called -> its spans, of `generate_lines(..., trace=True).receipt.spans` or of a schedule of yours.
    unit: in which they count time.
    """
    longest = max(s.end for spans in runs.values() for s in spans)
    height = sum(44 + LANE * len(threads_of(list(spans))) for spans in runs.values())
    canvas = Canvas(MOST_WIDE, height + 34)
    scale, y = (MOST_WIDE - 2 * LEFT) / longest, 0
    for title, spans in runs.items():
        end = max(s.end for s in spans)
        canvas.text(LEFT, y + 20, f"{title}: {end:.4g} {unit}", bold=True)
        y += 28
        for thread in threads_of(list(spans)):
            mine = [s for s in spans if s.thread == thread]
            busy = sum(s.end - s.begin for s in mine)
            canvas.text(LEFT, y + 12, f"{CALLED.get(thread, thread)}: busy {busy / end:.0%}", role="faint")
            canvas.line(LEFT, y + 18 + BAR, LEFT + end * scale, y + 18 + BAR)
            for s in mine:
                width = (s.end - s.begin) * scale
                word = s.batch if len(str(s.batch)) * LETTER <= width and s.batch else ""
                tip = f"{s.stage} {s.batch}: {s.begin:.4g} to {s.end:.4g} {unit}"
                canvas.cell(LEFT + s.begin * scale, y + 18, FILL[s.stage], word, width=width, height=BAR, tip=tip)
            y += LANE
        y += 16
    stages = {s.stage for spans in runs.values() for s in spans}
    canvas.legend(LEFT, height + 18, {FILL[stage]: stage for stage in FILL if stage in stages})
    return single(name, canvas, caption=caption, alt=alt)


def spans_of_schedule(lanes: Mapping[str, Sequence[tuple[str, int, float, float]]]) -> list[Span]:
    """A schedule by hand: thread -> (stage, batch, begin, end) of each piece of its work."""
    return [Span(t, stage, batch, 0, 0, begin, end) for t, work in lanes.items() for stage, batch, begin, end in work]
