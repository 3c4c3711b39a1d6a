"""Looks at the journal whenever enough has come together: races and traffic."""

from __future__ import annotations

import numpy as np

from .findings import Finding
from .journal import Journal, Rows
from .races import Races
from .threads import Dim3
from .traffic import Traffic

BATCH = 50_000  # accesses; NumPy's calls cost too much for the few of a single epoch or a small block


class Analysis:
    """The analysis of one launch. An epoch of a block is looked at as a whole: what is not whole yet waits."""

    def __init__(self, journal: Journal, grid: Dim3, block: Dim3, counts: bool = True):
        self._journal = journal
        self.races = Races(journal, has_blocks=grid.x * grid.y * grid.z > 1)
        self._counts = counts  # the traffic too
        self.traffic = Traffic(journal, block.x * block.y * block.z)
        self._waiting: Rows | None = None

    def analyse_ended_epochs(self, is_over: bool = False) -> None:
        """Looks for races in the epochs that have ended; is_over: in all epochs."""
        rows = self._journal.drain()
        if self._waiting is not None:
            rows = _concatenate_accesses(self._waiting, rows)
        has_ended = [is_over or not s.thread.block.live or s.epoch < s.thread.block.epoch for s in rows.segments]
        is_whole = np.array(has_ended, bool)[rows.segment]
        self._waiting = None if is_whole.all() else _rows_where(rows, ~is_whole)
        rows = rows if is_whole.all() else _rows_where(rows, is_whole)
        if len(rows.address):
            kind = self._journal.access_kinds(rows.site)
            self.races.find_within_blocks(rows, kind)
            if self._counts:
                self.traffic.count(rows, kind)

    def has_found_errors(self) -> bool:
        return any(not race.same_value for race in self.races.by_key.values())

    def findings(self) -> list[Finding]:
        """All there are, at the end of the launch."""
        self.analyse_ended_epochs(is_over=True)
        self.races.find_between_blocks()
        return self.races.findings()


def _rows_where(rows: Rows, which: np.ndarray) -> Rows:
    """Some rows, in their order."""
    chosen = np.flatnonzero(which)
    values = {k: rows.values[r] for k, r in enumerate(chosen.tolist()) if r in rows.values}
    return Rows(*(column[chosen] for column in rows[:-2]), rows.segments, values)


def _concatenate_accesses(one: Rows, two: Rows) -> Rows:
    """What was noted first, and what came later."""
    two = two._replace(segment=two.segment + len(one.segments))
    columns = [np.concatenate(pair) for pair in zip(one[:-2], two[:-2], strict=True)]
    values = one.values | {len(one.address) + r: value for r, value in two.values.items()}
    return Rows(*columns, one.segments + two.segments, values)
