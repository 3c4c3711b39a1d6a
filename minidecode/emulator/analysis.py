"""Looks at the journal whenever enough has come together: races and traffic."""

from __future__ import annotations

import numpy as np

from .findings import Finding
from .journal import Journal, Rows
from .races import Races
from .threads import Block, Dim3
from .traffic import Traffic

BATCH = 50_000  # accesses; NumPy's calls cost too much for the few of a single epoch


class Analysis:
    """Of one launch. Rows of blocks that run side by side are told apart before they are looked at."""

    def __init__(self, journal: Journal, grid: Dim3, block: Dim3):
        self._journal = journal
        self.races = Races(journal, has_blocks=grid.x * grid.y * grid.z > 1)
        self.traffic = Traffic(journal, block.x * block.y * block.z)
        self._pending: dict[int, list[Rows]] = {}

    def end_of_epoch(self, block: Block, has_ended: bool) -> None:
        """The block has passed a barrier, or has ended: what is in the journal of it are whole epochs."""
        if not has_ended and len(self._journal.addresses) < BATCH:
            return
        self._sort_out(self._journal.drain())
        pieces = self._pending.pop(block.number, [])
        if pieces:
            rows = _joined(pieces)
            kind = self._journal.kinds(rows.site)
            self.races.within_block(rows, kind)
            self.traffic.count(rows, kind, block.number)

    def _sort_out(self, rows: Rows) -> None:
        """Lays rows by for their blocks."""
        numbers = np.array([s.thread.block.number for s in rows.segments], np.int64)
        for number in np.unique(numbers).tolist():
            mine = np.flatnonzero(numbers[rows.segment] == number)
            if len(mine) == len(rows.address):
                self._pending.setdefault(number, []).append(rows)
            elif len(mine):
                values = {k: rows.values[r] for k, r in enumerate(mine.tolist()) if r in rows.values}
                columns = [column[mine] for column in (rows.address, rows.site, rows.thread, rows.epoch, rows.segment)]
                self._pending.setdefault(number, []).append(Rows(*columns, rows.segments, values))

    def found_errors(self) -> bool:
        return any(not race.same_value for race in self.races.found.values())

    def findings(self) -> list[Finding]:
        self.races.between_blocks()
        return self.races.findings()


def _joined(pieces: list[Rows]) -> Rows:
    """Several drains of one block as one."""
    if len(pieces) == 1:
        return pieces[0]
    segments, values, shifted, row = [], {}, [], 0
    for piece in pieces:
        shifted.append(piece.segment + len(segments))
        values |= {row + r: v for r, v in piece.values.items()}
        segments += piece.segments
        row += len(piece.address)
    columns = [np.concatenate([getattr(p, name) for p in pieces]) for name in ("address", "site", "thread", "epoch")]
    return Rows(*columns, np.concatenate(shifted), segments, values)
