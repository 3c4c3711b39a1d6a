"""A step's plan as SVG: calls from left to right, offsets from bottom to top, a rectangle for each intermediate.

Rectangles never overlap, or the planner would be wrong; where many stand above each other, the arena is well used.
"""

from __future__ import annotations

from html import escape

from .arena import StepPlan

LEFT, TOP, WIDTH, HEIGHT = 90, 72, 960, 420  # pixels, of the picture's inner part
PALETTE = (
    "#1f6feb", "#1a7f37", "#bf8700", "#cf222e", "#8250df", "#0a7d91", "#bc4c00", "#6e7781", "#a40e6a", "#4d5d00",
    "#24292f", "#5fb4e8", "#e08fb5", "#8a6d3b",
)  # fmt: skip


def draw_plan(plan: StepPlan, title: str) -> str:
    """The plan as the text of an SVG file: op by colour; what an op needs while it runs (its workspace) is paler."""
    layout = plan.layout
    calls = max((a.last for a in layout.lifetimes), default=0)
    column, row = WIDTH / (calls + 1), HEIGHT / max(layout.bytes, 1)
    bottom = TOP + HEIGHT
    ops = list(dict.fromkeys(a.name.split()[0] for a in layout.lifetimes))
    colours = {op: PALETTE[i % len(PALETTE)] for i, op in enumerate(ops)}
    body = []
    for a, offset in zip(layout.lifetimes, layout.offsets, strict=True):
        if a.bytes:
            says = f"{a.name}: {a.bytes:,} bytes at {offset:,}, calls {a.first} to {a.last}"
            body.append(
                f'<rect x="{LEFT + a.first * column:.2f}" y="{bottom - (offset + a.bytes) * row:.2f}"'
                f' width="{(a.last - a.first + 1) * column:.2f}" height="{a.bytes * row:.2f}"'
                f' fill="{colours[a.name.split()[0]]}" fill-opacity="{0.35 if a.name.endswith("workspace") else 0.8}"'
                f' stroke="#ffffff" stroke-width="0.5"><title>{escape(says)}</title></rect>'
            )
    body += _draw_frame(plan, column, row, bottom)
    lines, height = _draw_legend(colours, bottom + 58)
    saved = f"arena {layout.bytes:,} bytes; separate buffers {layout.separate_bytes:,}"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}"'
        f' width="{LEFT + WIDTH + 20}" height="{height}" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{LEFT + WIDTH + 20}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="600">{escape(title)}</text>',
        f'<text x="{LEFT}" y="38" fill="#57606a">{saved}</text>',
        *body, *lines, "</svg>", "",
    ])  # fmt: skip


def _draw_frame(plan: StepPlan, column: float, row: float, bottom: float) -> list[str]:
    """Axes, the sections of the step, and the line of the lower bound."""
    layout = plan.layout
    lines = [f'<path d="M{LEFT} {TOP} V{bottom} H{LEFT + WIDTH}" fill="none" stroke="#24292f"/>']
    for share in (0.25, 0.5, 0.75, 1.0):
        y = bottom - share * layout.bytes * row
        mega = share * layout.bytes / 1e6
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{mega:.3g} MB</text>')
    for section, ways in plan.calls.items():
        for calls in filter(None, ways):
            x = LEFT + calls[0].time * column
            lines.append(f'<path d="M{x:.1f} {TOP - 8} V{bottom + 6}" stroke="#24292f" stroke-dasharray="2 3"/>')
            lines.append(f'<text x="{x + 3:.1f}" y="{bottom + 16}">{section}</text>')
    says = f"{plan.number_of_calls} calls"
    lines.append(f'<text x="{LEFT + WIDTH}" y="{bottom + 32}" text-anchor="end">{says}</text>')
    y = bottom - layout.lower_bound * row
    lines.append(f'<path d="M{LEFT} {y:.1f} H{LEFT + WIDTH}" stroke="#cf222e" stroke-dasharray="6 4"/>')
    says = f"lower bound {layout.lower_bound:,}: the most that is alive at one call"
    lines.append(f'<text x="{LEFT + 4}" y="{y - 4:.1f}" fill="#cf222e">{says}</text>')
    return lines


def _draw_legend(colours: dict[str, str], top: float) -> tuple[list[str], float]:
    """(lines of SVG, height of the whole picture): five ops in a row."""
    lines = []
    for i, (op, colour) in enumerate(colours.items()):
        x, y = LEFT + 190 * (i % 5), top + 20 * (i // 5)
        lines.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{x + 17}" y="{y}">{escape(op)}</text>')
    return lines, top + 20 * (len(colours) // 5) + 24
