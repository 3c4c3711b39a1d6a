"""The lanes of a warp over what they ask for, request by request: sectors of global memory, banks of shared memory."""

from __future__ import annotations

from collections import Counter

from ..emulator.memory import SHARED_BASE
from ..emulator.pictures import WORDS, Request, requests_of_warp
from ..emulator.run import Run
from ..emulator.threads import WARP
from ..emulator.traffic import BANK_BYTES, BANKS, SECTOR
from ..errors import InputError
from .canvas import Canvas
from .figure import Figure, scrub

LEFT, LANE, WORD = 16, 14, 10  # pixels: the width of a lane, a sector and a bank; the height of a word
LANES_AT, MEMORY_AT = 50, 124


def draw_requests(
    run: Run, *, name: str, caption: str, alt: str, block: int = 0, warp: int = 0, array: str = "", most: int = 6
) -> Figure:
    """A frame for each of the first requests of a warp: its lanes above, below them what it makes memory give.

    Of global memory the sectors of 32 bytes that it touches, a column of 8 words each; of shared memory the 32 banks,
    with the words that it wants of a bank below each other: one pass each. array: only requests of the array of this
    name. Raises InputError where there is none.
    """
    journal = run._launch.journal
    requests = requests_of_warp(run, block, warp)
    requests = [r for r in requests if array in ("", journal.array_holding(int(r.addresses[0])).name)]
    if not requests:
        raise InputError(f"warp {warp} of block {block} of {run.name} asked {array or 'memory'} for nothing")
    drawn = [_Drawn(journal, r) for r in requests[:most]]
    height = max(d.height for d in drawn)
    return scrub(name, [(d.label, d.canvas(height)) for d in drawn], caption=caption, alt=alt)


class _Drawn:
    """One request: where its words lie, and what is to be said about it."""

    def __init__(self, journal, request: Request):
        self.lanes, addresses = request.lanes.tolist(), request.addresses.tolist()
        memory = journal.array_holding(addresses[0])
        size = memory.dtype.itemsize
        words = max(1, size // BANK_BYTES)
        self.first = [a // BANK_BYTES for a in addresses]  # word of each lane
        self.wanted = Counter(a // BANK_BYTES + k for a in addresses for k in range(words))
        self.in_banks = addresses[0] >= SHARED_BASE
        self.what = f"{WORDS[request.kind]} {memory.element(addresses[0])} to {memory.element(addresses[-1])}"
        apart = f"{len(set(addresses)) * size} bytes wanted"
        if self.in_banks:
            self.stacks = {b: sorted(w for w in self.wanted if w % BANKS == b) for b in range(BANKS)}
            deepest = max(map(len, self.stacks.values()))
            self.cost = f"{apart}, {deepest} pass{'es' * (deepest > 1)}"
            self.height = MEMORY_AT + WORD * deepest + 66
        else:
            self.sectors = sorted({w * BANK_BYTES // SECTOR for w in self.wanted})
            self.cost = f"{apart}, {len(self.sectors)} sector{'s' * (len(self.sectors) > 1)}"
            self.cost += f" ({SECTOR * len(self.sectors):,} bytes) moved"
            self.height = MEMORY_AT + WORD * SECTOR // BANK_BYTES + 66
        where = "shared" if self.in_banks else "global"
        self.label = f"{self.what[0].upper()}{self.what[1:]}, {where} memory: {self.cost}."

    def canvas(self, height: int) -> Canvas:
        canvas = Canvas(2 * LEFT + LANE * WARP, height)
        canvas.text(LEFT, 18, f"a warp {self.what}", bold=True)
        canvas.text(LEFT, 38, self.cost)
        cells, places = self._banks() if self.in_banks else self._sectors()
        for lane, word in zip(self.lanes, self.first, strict=True):
            canvas.line(LEFT + LANE * (lane + 0.5), LANES_AT + LANE, *places[word], thick=0.7)
        for lane in range(WARP):
            fill = "mid" if lane in self.lanes else "paper"
            canvas.cell(LEFT + LANE * lane, LANES_AT, fill, width=LANE, height=LANE, tip=f"lane {lane}")
        for k, row, fill, tip in cells:
            canvas.cell(LEFT + LANE * k, MEMORY_AT + WORD * row, fill, width=LANE, height=WORD, tip=tip)
        for k in range(0, BANKS if self.in_banks else len(self.sectors), 8):
            name = f"{'bank' if self.in_banks else 'sector'} {k}"
            canvas.text(LEFT + LANE * k, height - 42, name, role="faint")
        if self.in_banks:
            meanings = {"mid": "first pass", "mark": "a pass more", "strong": "shared word"}
        else:
            meanings = {"mid": "wanted", "strong": "by several", "pale": "not wanted"}
        canvas.legend(LEFT, height - 14, meanings)
        return canvas

    def _sectors(self) -> tuple[list, dict]:
        """(cells: column, row, fill and tip; where a lane's line ends, by word)"""
        each = SECTOR // BANK_BYTES
        cells, places = [], {}
        for k, sector in enumerate(self.sectors):
            for w in range(each):
                wanted = self.wanted[sector * each + w]
                fill = "strong" if wanted > 1 else "mid" if wanted else "pale"
                cells.append((k, w, fill, f"sector {k}, word {w}: {wanted} lanes want it"))
                places[sector * each + w] = LEFT + LANE * (k + 0.5), MEMORY_AT
        return cells, places

    def _banks(self) -> tuple[list, dict]:
        """(cells, places) by banks: the words of a bank lie below each other, and so do the ends of the lines."""
        cells, places = [], {}
        for bank, stack in self.stacks.items():
            for k, word in enumerate(stack or [None]):
                fill = "paper" if word is None else "mark" if k else "strong" if self.wanted[word] > 1 else "mid"
                cells.append((bank, k, fill, f"bank {bank}: {self.wanted[word]} lanes want this word"))
                places[word] = LEFT + LANE * (bank + 0.5), MEMORY_AT + WORD * k
        return cells, places
