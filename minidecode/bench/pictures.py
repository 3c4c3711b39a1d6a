"""Pictures of comparisons, drawn by matplotlib (the extra `plots`)."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from .compare import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#cf222e", "#1f6feb", "#1a7f37", "#8250df", "#bf8700", "#0a7d91")
MARKERS = {"reference naive": "v", "reference": "s", "cpu": "o", "cuda": "D"}
MOVES_ALONE = 1e-2  # operations per byte, where what computes nothing is drawn


def roofline(files: dict[str, list[Comparison]]) -> Figure:
    """How near to its machine each implementation comes: useful bytes per second over operations per byte.

    The roof is min(bandwidth, operations / intensity) of each file's machine, as it was measured then; on the left of
    the bend memory is the limit, on the right arithmetic. (The usual roofline times the intensity; so drawn, ops that
    only move data have a place too, at the left edge.)
    """
    from matplotlib.figure import Figure

    figure = Figure((8, 5.2), layout="constrained")
    panel = figure.subplots()
    found = [c for comparisons in files.values() for c in comparisons]
    spots = [max(c.cost.operations / c.cost.bytes, MOVES_ALONE) for c in found]
    low, high = min(spots) / 3, max(*spots, *(c.machine.balance for c in found)) * 3
    for colour, (label, comparisons) in zip(COLOURS, files.items(), strict=False):
        machine = comparisons[0].machine
        x = [low, machine.balance, high]
        roof = [min(machine.bandwidth, machine.operations / i) / 1e9 for i in x]
        panel.plot(
            x, roof, color=colour, label=f"{label}: {roof[0]:,.0f} GB/s, {machine.operations / 1e9:,.0f} GFLOP/s"
        )
        for comparison in comparisons:
            _draw_points(panel, comparison, colour, len(found) == 1)
    for marker, name in ((m, n) for n, m in MARKERS.items()):
        panel.plot([], [], marker, color="#24292f", label=name)
    what = f"{found[0].name}: {found[0].shape}" if len(found) == 1 else "implementations, each on its own inputs"
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


def _draw_points(panel: Any, comparison: Comparison, colour: str, is_alone: bool) -> None:
    """The implementations of one optimization, one above the other; the fastest is named."""
    x = max(comparison.cost.operations / comparison.cost.bytes, MOVES_ALONE)
    for timing in comparison.timings:
        y = comparison.reached(timing)[0] / 1e9
        kind = timing.implementation.removesuffix(" on the host")
        marker = MARKERS.get(kind) or MARKERS[kind.split()[0]]
        panel.plot(x, y, marker, color=colour, markersize=5, alpha=0.8)
        if is_alone:
            panel.annotate(timing.implementation, (x, y), (6, -2), textcoords="offset points", fontsize=7)
    if not is_alone:
        fastest = max(comparison.reached(t)[0] for t in comparison.timings) / 1e9
        panel.annotate(comparison.name, (x, fastest), (4, 3), textcoords="offset points", fontsize=7)
