"""What came of a launch: its verdict, its counts, its pictures. It never tells a time: the emulator's means nothing."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import OptionError
from . import page, pictures, report
from .findings import Finding
from .journal import ATOMIC, LOAD, STORE
from .launch import Launch
from .source import Place, source_lines


@dataclass
class LineCount:
    """What one line of source did in the whole launch."""

    global_loads: int = 0
    global_stores: int = 0
    shared_loads: int = 0
    shared_stores: int = 0
    atomics: int = 0
    sectors: int = 0
    least_sectors: int = 0  # that would hold the bytes wanted
    bank_conflicts: int = 0
    lanes: int = 0  # that took part, summed over the line's warp requests
    lanes_there: int = 0  # that those warps have
    operations: int = 0  # see operations.py; 0 where they were not counted

    @property
    def active(self) -> float:
        """The share of its warps' lanes that took part: divergence is a cost, never an error."""
        return self.lanes / self.lanes_there if self.lanes_there else 0.0


class Run:
    """One emulated launch. `print(run)` shows it as text, a notebook as a page.

    findings: errors and notes, errors first. ok: no error. partial: only a sample of the blocks ran; stopped: an error
    ended the launch. In both, arrays and counts hold what ran. schedules: how many orders of blocks and threads ran;
    more than one where atomics or fences order accesses (see schedules.py). schedule: the one that the findings, counts
    and pictures are of; arrays hold the results of the first.
    """

    def __init__(self, launch: Launch):
        self._launch = launch
        self.name = launch.function.__name__
        self.findings: list[Finding] = sorted(launch.findings, key=lambda f: f.severity != "error")
        self.errors = [f for f in self.findings if f.severity == "error"]
        self.ok = not self.errors
        self.threads = launch.blocks_begun * launch.block.x * launch.block.y * launch.block.z
        self.blocks = launch.grid.x * launch.grid.y * launch.grid.z
        self.partial = self.ok and launch.blocks_run < self.blocks
        self.stopped = launch.was_stopped
        self.schedules = launch.schedules
        self.schedule = launch.schedule.name if launch.schedule else "drawn from the seed"
        self.barriers = launch.barriers_passed  # by blocks, summed over them
        self.shuffles = launch.shuffles  # by warps, summed over them, as votes are
        self.votes = launch.votes  # of lanes (any_sync, ballot_sync, match_any_sync, ...) and at barriers
        self.traced = launch.analysis is not None
        self.counts_operations = launch.operations is not None
        self._operations = launch.operations.by_place() if launch.operations else {}

    @property
    def verdict(self) -> str:
        """ "clean", or what was found; then the notes."""
        return report.verdict(self)

    @property
    def costs(self) -> list[str]:
        """What makes the kernel slower than it need be, by line: scattered sectors, bank conflicts."""
        return report.costs(self)

    @property
    def lines(self) -> dict[Place, LineCount]:
        """Counts by line of source."""
        found: dict[Place, LineCount] = {}
        for (site, _), c in sorted(self.sites.items()):
            line = found.setdefault(self._launch.journal.place(site), LineCount())
            for name, amount in _parts(c).items():
                setattr(line, name, getattr(line, name) + amount)
        for place, count in self._operations.items():
            found.setdefault(place, LineCount()).operations = count
        return found

    @property
    def sites(self) -> dict:
        """Counts by instruction and whether in shared memory (traffic.SiteCount)."""
        if not self.traced:
            raise OptionError("nothing was counted: emulate() was told trace=False")
        return self._launch.analysis.traffic.sites

    @property
    def arrays(self) -> dict[str, dict[str, int]]:
        """Accesses by array, shared ones too: name -> loads, stores, atomics."""
        if not self.traced:
            raise OptionError("nothing was counted: emulate() was told trace=False")
        words = {"loads": LOAD, "stores": STORE, "atomics": ATOMIC}
        return {name: {word: counted[kind] for word, kind in words.items()}
                for name, counted in self._launch.analysis.traffic.arrays.items()}  # fmt: skip

    def total(self, name: str) -> int:
        """One of LineCount's numbers over all lines."""
        return sum(_parts(c).get(name, 0) for c in self.sites.values())

    global_loads_per_thread = property(lambda self: self.total("global_loads") / self.threads)
    global_stores_per_thread = property(lambda self: self.total("global_stores") / self.threads)
    shared_loads_per_thread = property(lambda self: self.total("shared_loads") / self.threads)
    shared_stores_per_thread = property(lambda self: self.total("shared_stores") / self.threads)
    atomics = property(lambda self: self.total("atomics"))
    sectors = property(lambda self: self.total("sectors"), doc="32-byte sectors that loads and stores moved")
    bank_conflicts = property(lambda self: self.total("bank_conflicts"), doc="passes of shared memory beyond the first")
    bytes_moved = property(lambda self: 32 * self.sectors, doc="bytes of global memory that moved, as sectors")

    @property
    def bytes_wanted(self) -> int:
        """Bytes of global memory that warps asked for; each once per warp request."""
        return sum(c.bytes_wanted for c in self.sites.values())

    @property
    def operations(self) -> int:
        """Arithmetic operations and comparisons of the whole launch, those in indices included (operations.py)."""
        if not self.counts_operations:
            raise OptionError("operations were not counted: say emulate(kernel, operations=True)")
        return sum(self._operations.values())

    def show(self, block: int = 0, warp: int = 0) -> pictures.Shown:
        """What one warp touched, request by request, as text and as a picture."""
        if not all(isinstance(n, int) and n >= 0 for n in (block, warp)):
            raise OptionError(f"block and warp are numbers, counted from 0, not {block!r} and {warp!r}")
        return pictures.Shown(self, block, warp)

    def compare(self, other: Run) -> str:
        """The counts of two runs beside each other, and by what factor they differ."""
        if not isinstance(other, Run):
            raise OptionError(f"compare takes another run, not {other!r:.60}")
        return report.comparison(self, other)

    def to_svg(self) -> str:
        """The access that ended the run, or its first race as memory strips; else the warp request that wastes most."""
        return pictures.draw(self)

    def __str__(self) -> str:
        return report.text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return page.html(self)

    def place_of(self, site: int) -> Place:
        """Where in the source the instruction stands that `sites` counts under this number."""
        return self._launch.journal.place(site)

    @property
    def codes(self) -> list:
        """The code of every function in which something was counted, as Python has it."""
        return [code for _, _, code in self._launch.journal.bases.ranges]

    @property
    def source(self) -> dict[int, str]:
        return source_lines(self._launch.function.__code__)


def _parts(c) -> dict[str, int]:
    """One instruction's counts under LineCount's names."""
    where = "shared" if c.shared else "global"
    what = {LOAD: f"{where}_loads", STORE: f"{where}_stores", ATOMIC: "atomics"}[c.kind]
    conflicts = c.passes - c.requests if c.shared and c.kind != ATOMIC else 0
    return {what: c.accesses, "sectors": c.sectors, "least_sectors": c.least_sectors, "bank_conflicts": conflicts,
            "lanes": c.lanes, "lanes_there": c.lanes_there}  # fmt: skip
