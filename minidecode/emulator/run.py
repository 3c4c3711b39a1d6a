"""What came of a launch, shown: its verdict, its counts, its pictures. No time: the emulator's means nothing."""

from __future__ import annotations

from ..errors import OptionError
from . import page, pictures, report
from .outcome import Outcome


class Run(Outcome):
    """One emulated launch. `print(run)` shows it as text, a notebook as a page.

    findings: errors and notes, errors first. ok: no error. partial: only a sample of the blocks ran; stopped: an error
    ended the launch. In both, arrays and counts hold what ran. schedules: how many orders of blocks and threads ran;
    more than one where atomics or fences order accesses (see schedules.py). schedule: the one that the findings, counts
    and pictures are of; arrays hold the results of the first.
    """

    @property
    def verdict(self) -> str:
        """ "clean", or what was found; then the notes."""
        return report.verdict_text(self)

    @property
    def costs(self) -> list[str]:
        """What makes the kernel slower than it need be, by line: scattered sectors, bank conflicts."""
        return report.cost_texts(self)

    def show(self, block: int = 0, warp: int = 0) -> pictures.Shown:
        """What one warp touched, request by request, as text and as a picture."""
        if not all(isinstance(n, int) and n >= 0 for n in (block, warp)):
            raise OptionError(f"block and warp are numbers, counted from 0, not {block!r} and {warp!r}")
        return pictures.Shown(self, block, warp)

    def compare(self, other: Run) -> str:
        """The counts of two runs beside each other, and by what factor they differ."""
        if not isinstance(other, Run):
            raise OptionError(f"compare takes another run, not {other!r:.60}")
        return report.comparison_table(self, other)

    def to_svg(self) -> str:
        """The access that ended the run, or its first race as memory strips; else the warp request that wastes most."""
        return pictures.draw_run(self)

    def __str__(self) -> str:
        return report.report_text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return page.html_of_run(self)
