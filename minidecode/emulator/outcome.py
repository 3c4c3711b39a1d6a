"""The facts of a launch: what was found, and the counts by instruction, line and array."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import OptionError
from .findings import Finding
from .launch import Launch
from .memory import ATOMIC, LOAD, STORE
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


class Outcome:
    """What came of a launch, as `Run` shows it; the attributes are described there."""

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
    def lines(self) -> dict[Place, LineCount]:
        """Counts by line of source."""
        lines: dict[Place, LineCount] = {}
        for (site, _), c in sorted(self.sites.items()):
            line = lines.setdefault(self._launch.journal.place_of_site(site), LineCount())
            for name, amount in _as_line_counts(c).items():
                setattr(line, name, getattr(line, name) + amount)
        for place, count in self._operations.items():
            lines.setdefault(place, LineCount()).operations = count
        return lines

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
        return sum(_as_line_counts(c).get(name, 0) for c in self.sites.values())

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

    def place_of(self, site: int) -> Place:
        """The place in the source of the instruction that `sites` counts under this number."""
        return self._launch.journal.place_of_site(site)

    @property
    def codes(self) -> list:
        """The code of every function in which something was counted, as Python has it."""
        return [code for _, _, code in self._launch.journal.bases.ranges]

    @property
    def source(self) -> dict[int, str]:
        return source_lines(self._launch.function.__code__)


def _as_line_counts(c) -> dict[str, int]:
    """One instruction's counts under LineCount's names."""
    where = "shared" if c.shared else "global"
    what = {LOAD: f"{where}_loads", STORE: f"{where}_stores", ATOMIC: "atomics"}[c.kind]
    conflicts = c.passes - c.requests if c.shared and c.kind != ATOMIC else 0
    return {what: c.accesses, "sectors": c.sectors, "least_sectors": c.least_sectors, "bank_conflicts": conflicts,
            "lanes": c.lanes, "lanes_there": c.lanes_there}  # fmt: skip
