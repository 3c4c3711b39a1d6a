"""When which thread of a pipeline was busy: as a Chrome trace (chrome://tracing, ui.perfetto.dev), and as a picture."""

from __future__ import annotations

from html import escape
from typing import Any

from ..errors import counted
from .pipeline import RunReceipt, Span

WIDTH, LEFT, RIGHT, LANE, BAR, TOP = 720, 14, 14, 78, 40, 100  # pixels; at half the size letters are 11 pixels high
DRAWN = 400  # spans at most: more would be a blur
# By stage: the colour, its lightness different from all others', and for two of them strokes, so that grey is enough.
FILLS = {
    "read": ("#f6e3a1", None), "tokenize": ("#d98e2b", None), "generate": ("#173f73", None),
    "post-process": ("#bcd9c3", "M0 8 L8 0"), "write": ("#ffffff", "M4 0 V8"),
}  # fmt: skip


def chrome_trace(receipt: RunReceipt) -> dict[str, Any]:
    """The spans in Chrome's trace event format: complete events ("X"), microseconds, a tid for each thread."""
    tids = {thread: i for i, thread in enumerate(threads_of(receipt.spans), 1)}
    named = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": thread}}
        for thread, tid in tids.items()
    ]
    events = [
        {"ph": "X", "cat": "pipeline", "name": s.stage, "pid": 1, "tid": tids[s.thread], "ts": round(s.begin * 1e6, 3),
         "dur": round((s.end - s.begin) * 1e6, 3),
         "args": {"batch": s.batch, "first_line": s.first_line, "lines": s.lines}}
        for s in sorted(receipt.spans, key=lambda s: s.begin)
    ]  # fmt: skip
    return {"displayTimeUnit": "ms", "traceEvents": [*named, *events]}


def threads_of(spans: list[Span]) -> list[str]:
    """The names of the threads: the one that reads ahead, the one that generates, those that finish."""
    threads = {s.thread for s in spans}
    return sorted(threads, key=lambda name: ({"prefetch": 0, "caller": 1}.get(name, 2), name))


def draw_timeline(receipt: RunReceipt, title: str | None = None) -> str:
    """The text of an SVG file: a lane for each thread, a bar for each stretch of work, time from left to right."""
    spans = sorted(receipt.spans, key=lambda s: s.begin)[:DRAWN]
    threads, seconds = threads_of(spans), max((s.end for s in spans), default=0.0)
    scale, bottom = (WIDTH - LEFT - RIGHT) / (seconds or 1.0), TOP + LANE * len(threads)
    lanes = {thread: TOP + LANE * i for i, thread in enumerate(threads)}
    bars = []
    for s in spans:
        box = (
            f'x="{LEFT + s.begin * scale:.2f}" y="{lanes[s.thread] + 28}"'
            f' width="{max((s.end - s.begin) * scale, 0.5):.2f}" height="{BAR}"'
        )
        says = f"{s.stage}: {counted(s.lines, 'line')} from line {s.first_line}, {s.begin:.4f} to {s.end:.4f} s"
        bars.append(
            f'<rect {box} fill="{_fill_of_stage(s.stage)}" stroke="#24292f" stroke-width="0.5">'
            f"<title>{escape(says)}</title></rect>"
        )
    labels = [f'<text x="{LEFT}" y="{y + 20}">{escape(_display_name(thread))}</text>' for thread, y in lanes.items()]
    title = title or f"{counted(receipt.lines, 'line')}, overlap: {receipt.overlap}"
    height = bottom + 44
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' role="img" aria-labelledby="title desc" font-family="system-ui, sans-serif" font-size="22" fill="#24292f">',
        f'<title id="title">{escape(title)}</title>', f'<desc id="desc">{escape(describe_timeline(receipt))}</desc>',
        *_define_patterns(), f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="28" font-weight="600">{escape(title)}</text>',
        *_draw_legend(list(dict.fromkeys(s.stage for s in spans))), *labels, *bars,
        f'<path d="M{LEFT} {bottom + 6} H{WIDTH - RIGHT}" stroke="#24292f"/>',
        f'<text x="{LEFT}" y="{bottom + 32}">0</text>',
        f'<text x="{WIDTH - RIGHT}" y="{bottom + 32}" text-anchor="end">{seconds:.3g} s</text>',
        "</svg>", "",
    ])  # fmt: skip


def describe_timeline(receipt: RunReceipt) -> str:
    """What the picture shows, for those who do not see it."""
    stages = ", ".join(f"{stage} {s:.3f} s" for stage, s in receipt.busy.items())
    shown = "" if len(receipt.spans) <= DRAWN else f" Only the first {DRAWN} stretches of work are drawn."
    return (
        f"A lane for each of {counted(len(threads_of(receipt.spans)), 'thread')}, with a bar for each stretch of work. "
        f"Busy in all: {stages}; by the clock {receipt.seconds:.3f} s, so {receipt.overlapped:.2f} stages at a time on "
        f"average.{shown}"
    )


def _display_name(thread: str) -> str:
    return {"prefetch": "thread that reads ahead", "caller": "calling thread"}.get(thread, f"thread: {thread}")


def _fill_of_stage(stage: str) -> str:
    return f"url(#{stage})" if FILLS[stage][1] else FILLS[stage][0]


def _define_patterns() -> list[str]:
    """Strokes over a colour."""
    return [
        f'<pattern id="{stage}" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8"'
        f' fill="{colour}"/><path d="{strokes}" stroke="#24292f" stroke-width="1.2"/></pattern>'
        for stage, (colour, strokes) in FILLS.items() if strokes
    ]  # fmt: skip


def _draw_legend(stages: list[str]) -> list[str]:
    lines, x = [], LEFT
    for stage in (s for s in FILLS if s in stages):
        lines.append(f'<rect x="{x}" y="46" width="22" height="22" fill="{_fill_of_stage(stage)}" stroke="#24292f"/>')
        lines.append(f'<text x="{x + 28}" y="65">{stage}</text>')
        x += 52 + 12 * len(stage)
    return lines
