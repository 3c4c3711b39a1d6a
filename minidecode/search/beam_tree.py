"""The beam tree of a traced search, as SVG: a column per step, a row per candidate, best on top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from ..errors import counted
from ..runtime.trace import FATES, TraceStep

COLUMN, ROW, LEFT, TOP = 150, 30, 60, 60  # pixels
COLOURS = {"runs": "#1f6feb", "ends": "#1a7f37", "refused": "#9a6700", "dropped": "#8c959f"}


def draw_beam_tree(steps: Sequence[TraceStep], results: Sequence[Sequence[int]], word: Callable[[int], str]) -> str:
    """One sentence's steps as the text of an SVG file; diverse groups one below the other.

    results: the new tokens of the texts returned, best first; the path of the best is drawn bold. word(id): what to
    write for a token.
    """
    groups = sorted({s.group for s in steps})
    drawn = [_draw_group([s for s in steps if s.group == g], results, word, len(groups) > 1) for g in groups]
    width, height = max(w for _, w, _ in drawn), sum(h for _, _, h in drawn)
    body, y = [], 0
    for lines, _, group_height in drawn:
        body += [f'<g transform="translate(0 {y})">', *lines, "</g>"]
        y += group_height
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">',
        f"<title>Beam search, {counted(max(s.step for s in steps) + 1, 'step')}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *body, "</svg>", "",
    ])  # fmt: skip


def _draw_group(steps, results, word, name_it: bool) -> tuple[list[str], int, int]:
    """(lines of SVG, width, height) of one group."""
    rows = max(len(s.candidates) for s in steps)
    width, height = LEFT + COLUMN * (len(steps) + 1), TOP + ROW * rows + 40
    # By step: running beam -> where its last token stands.
    places: list[dict[int, tuple[float, float]]] = [{0: (LEFT - 20, TOP + ROW * (rows - 1) / 2)}]
    edges, nodes = [], []
    for column, s in enumerate(steps):
        below: dict[int, tuple[float, float]] = {}
        for rank, c in enumerate(s.candidates):
            x, y = LEFT + COLUMN * column + 60, TOP + ROW * rank
            text = [*s.running[c.parent], c.token]
            is_best = bool(results) and list(results[0][: len(text)]) == text
            edges.append(_draw_edge(places[-1].get(c.parent, places[0][0]), (x - 4, y), c.fate, is_best))
            nodes.append(_draw_node(x, y, word(c.token), c.score, c.fate, is_best))
            if c.beam is not None:
                below[c.beam] = (x + 84, y)
        places.append(below or places[-1])
    heads = [
        f'<text x="{LEFT + COLUMN * i + 60}" y="28" font-size="12" fill="#57606a">step {s.step + 1}</text>'
        for i, s in enumerate(steps)
    ]
    legend = "".join(
        f'<tspan fill="{COLOURS[fate]}" dx="{0 if i == 0 else 18}">{escape(meaning)}</tspan>'
        for i, (fate, meaning) in enumerate(FATES.items())
    )
    name = f'<text x="8" y="28" font-size="12" font-weight="600">group {steps[0].group + 1}</text>'
    footer = f'<text x="{LEFT}" y="{height - 14}" font-size="12">{legend}</text>'
    return [*([name] if name_it else []), *heads, *edges, *nodes, footer], width, height


def _draw_edge(start: tuple[float, float], end: tuple[float, float], fate: str, is_best: bool) -> str:
    (x1, y1), (x2, y2) = start, end
    middle = (x1 + x2) / 2
    style = 'stroke-width="3"' if is_best else 'stroke-width="1"' + (' stroke-dasharray="3 3"' * (fate == "dropped"))
    return (
        f'<path d="M{x1:.0f} {y1:.0f} C{middle:.0f} {y1:.0f} {middle:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"'
        f' fill="none" stroke="{COLOURS[fate]}" {style}/>'
    )


def _draw_node(x: float, y: float, word: str, score: float, fate: str, is_best: bool) -> str:
    word = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in word)  # XML takes no control characters
    shown = word if len(word) <= 11 else word[:10] + "…"
    weight = ' font-weight="bold"' if is_best else ""
    return (
        f"<g><title>{escape(word)}: {score:.4f}, {FATES[fate]}</title>"
        f'<text x="{x}" y="{y + 4}" fill="{COLOURS[fate]}"{weight} xml:space="preserve">{escape(shown)}</text>'
        f'<text x="{x}" y="{y + 15}" font-size="9" fill="#57606a">{score:.2f}</text></g>'
    )
