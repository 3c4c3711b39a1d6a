"""Pictures of comparisons and of the ladder, drawn by matplotlib (the extra `plots`)."""

from __future__ import annotations

import io
import re
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, TextIO
from xml.sax.saxutils import escape

from .compare import ON_HOST, Comparison, Timing
from .ladder import SHARES, Ladder
from .machines import Machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#cf222e", "#1f6feb", "#1a7f37", "#8250df", "#bf8700", "#0a7d91")
MARKERS = {"reference naive": "v", "reference": "s", "cpu": "o", "cuda": "D"}
ALL_MARKERS = MARKERS | {"yours": "*"}  # the user's functions
MOVES_ALONE = 1e-2  # operations per byte, where what computes nothing is drawn


def draw_roofline(files: dict[str, list[Comparison]]) -> Figure:
    """How near to its machine each implementation comes: useful bytes per second over operations per byte.

    The roof is min(bandwidth, operations / intensity) of each file's machine, as it was measured then; on the left of
    the bend memory is the limit, on the right arithmetic; roofs of machines that were predicted for are dashed. (The
    usual roofline times the intensity; so drawn, ops that only move data have a place too, at the left edge.)
    """
    from matplotlib.figure import Figure

    figure = Figure((8, 5.2), layout="constrained")
    panel = figure.subplots()
    every = [c for comparisons in files.values() for c in comparisons]
    spots = [max(c.cost.operations / c.cost.bytes, MOVES_ALONE) for c in every]
    predicted = {m.name: m for c in every for m in c.predicted}.values()
    bends = [m.balance for m in (*(c.machine for c in every), *predicted)]
    low, high = min(spots) / 3, max(*spots, *bends) * 3
    for colour, (label, comparisons) in zip(COLOURS, files.items(), strict=False):
        _draw_roof(panel, comparisons[0].machine, label, (low, high), color=colour)
        for comparison in comparisons:
            _draw_points(panel, comparison, colour, len(every) == 1)
    for machine, dashes in zip(predicted, (":", "--", "-."), strict=False):
        _draw_roof(panel, machine, machine.name, (low, high), color="#57606a", linestyle=dashes)
    drawn = {_kind_of_marker(timing) for c in every for timing in c.timings}
    for name in (name for name in ALL_MARKERS if name in drawn):
        panel.plot([], [], ALL_MARKERS[name], color="#24292f", label=name)
    what = f"{every[0].name}: {every[0].shape}" if len(every) == 1 else "implementations, each on its own inputs"
    panel.set(xscale="log", yscale="log", xlabel="operations per byte that must be moved", ylabel="useful GB/s")
    panel.set_title(what, fontsize=9)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    bottom, top = panel.get_ylim()
    panel.set_ylim(10 ** floor(log10(bottom)), 10 ** ceil(log10(top)))  # at least a decade, so that ticks have names
    panel.grid(alpha=0.3)
    figure.legend(fontsize=7, loc="outside lower center", ncols=4)
    return figure


def _draw_roof(panel: Any, machine: Machine, label: str, edges: tuple[float, float], **style: Any) -> None:
    """The machine's roof between these operations per byte."""
    x = [edges[0], machine.balance, edges[1]]
    roof = [min(machine.bandwidth, machine.operations / i) / 1e9 for i in x]
    panel.plot(x, roof, label=f"{label}: {roof[0]:,.0f} GB/s, {machine.operations / 1e9:,.0f} GFLOP/s", **style)


def _kind_of_marker(timing: Timing) -> str:
    """The one of ALL_MARKERS that an implementation is drawn by."""
    kind = timing.implementation.removesuffix(ON_HOST)
    kind = kind if kind in MARKERS else kind.split()[0]
    return kind if kind in MARKERS else "yours"


def _draw_points(panel: Any, comparison: Comparison, colour: str, is_alone: bool) -> None:
    """The implementations of one optimization, one above the other; the fastest is named."""
    x = max(comparison.cost.operations / comparison.cost.bytes, MOVES_ALONE)
    for timing in comparison.timings:
        y = comparison.reached(timing)[0] / 1e9
        panel.plot(x, y, ALL_MARKERS[_kind_of_marker(timing)], color=colour, markersize=5, alpha=0.8)
        if is_alone:
            panel.annotate(timing.implementation, (x, y), (6, -2), textcoords="offset points", fontsize=7)
    if not is_alone:
        fastest = max(comparison.reached(t)[0] for t in comparison.timings) / 1e9
        panel.annotate(comparison.name, (x, fastest), (4, 3), textcoords="offset points", fontsize=7)


# ---- the ladder ------------------------------------------------------------------------------------------------------

DARK = "#24292f"
STAGE_STYLES = (  # of each stage of ladder.SHARES: its colour, its hatch and the hatch's colour; in grey too
    ("#1f6feb", "", "white"), ("#f2cc60", "///", DARK), ("#cf222e", "xxx", "white"), ("#cae8ff", "++", DARK),
    ("#8250df", "---", "white"), ("#aceebb", "\\\\\\", DARK), ("#d0d7de", "", DARK), ("#ffb77c", "||", DARK),
    (DARK, "//", "white"),
)  # fmt: skip


def ladder_picture(ladder: Ladder) -> Figure:
    """The rungs of a ladder: speedup over the first (above), and where the time of each goes (FastSeq, Figure 1).

    As narrow as a telephone, with a column of one panel; a rung that is not carried on is drawn hollow.
    """
    import matplotlib
    from matplotlib.figure import Figure

    steps = ladder.measured
    with matplotlib.rc_context({"font.size": 8, "hatch.linewidth": 0.6}):
        figure = Figure((4.2, 2.2 + 0.52 * len(steps)), layout="constrained")
        above, below = figure.subplots(2, 1)
        names, places = [s.name for s in steps], range(len(steps))
        for place, step in zip(places, steps, strict=True):
            face = "#1f6feb" if step.carried else "white"
            above.barh(place, step.speedup_total, 0.7, left=0, color=face, edgecolor="#1f6feb",
                       hatch="" if step.carried else "///")  # fmt: skip
            above.annotate(f"{step.speedup_total:.1f}x", (step.speedup_total, place), (3, 0),
                           textcoords="offset points", va="center")  # fmt: skip
        above.set(xscale="log", xlim=(0.5, 3 * max(s.speedup_total for s in steps)))
        above.set_title(
            f"{ladder.work['model']}: speedup over no cache (hollow: not carried on)", fontsize=8, loc="right"
        )
        above.xaxis.set_major_formatter("{x:g}")
        above.xaxis.set_minor_formatter("")
        for stage, (colour, hatch, line) in zip(SHARES, STAGE_STYLES, strict=True):
            widths = [100 * s.shares.get(stage, 0.0) for s in steps]
            before = SHARES[: SHARES.index(stage)]
            lefts = [100 * sum(s.shares.get(b, 0.0) for b in before) for s in steps]
            below.barh(places, widths, 0.8, left=lefts, facecolor=colour, hatch=hatch, edgecolor=line,
                       linewidth=0.4, label=stage)  # fmt: skip
        below.set(xlim=(0, 100))
        below.set_title("percent of the busy seconds", fontsize=8, loc="right")
        for panel in (above, below):
            panel.set_yticks(places, names)
            panel.invert_yaxis()
            panel.set_axisbelow(True)
            panel.grid(axis="x", alpha=0.3)
        figure.legend(*below.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    return figure


def ladder_in_words(ladder: Ladder) -> str:
    """What the picture shows, in words, for those who do not see it."""
    rungs = "; ".join(
        f"{s.name} {s.speedup_total:.1f} times the first rung's speed{'' if s.carried else ', not carried on'}, "
        f"most of its time in {max(s.shares, key=s.shares.get)} ({100 * max(s.shares.values()):.0f} percent)"
        for s in ladder.measured
    )
    return f"Bars of {ladder.work['model']}, one for each rung: {rungs}."


def figure_as_svg(figure: Figure) -> str:
    """The picture as SVG whose text is text: places in hundredths of a point, one font's name, no indents, no date."""
    import matplotlib

    drawn = io.StringIO()
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "minidecode", "font.sans-serif": ["DejaVu Sans"]}
    ):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    lines = re.sub(r' transform="rotate\(-0 [^"]*"', "", re.sub(r"\n +", "\n", drawn.getvalue()))
    svg = re.sub(r'\b[dxy]="[^"]*"', lambda places: re.sub(r"(\.\d\d)\d+", r"\1", places[0]), lines)
    return re.sub(r'\bd="[^"]*"', lambda path: re.sub(r" ?\n|(?<=[A-Za-z]) ", "", path[0]), svg)


def write_svg(figure: Figure, file: TextIO, title: str, description: str) -> None:
    """The picture, with a title and a description for those who do not see it."""
    head, svg, rest = figure_as_svg(figure).partition("<svg ")
    attributes, end, body = rest.partition(">")
    labels = f"\n<title id='title'>{escape(title)}</title>\n<desc id='desc'>{escape(description)}</desc>"
    file.write(f"{head}{svg}role='img' aria-labelledby='title desc' {attributes}{end}{labels}{body}")
