"""What a thread knows of the others: which of their accesses are ordered before its own.

Full vector clocks would hold a number per pair of threads. Order on a GPU has a shape that needs far less:

- A block's barrier orders everything before it in the block: one number per block, its epoch (the barriers passed).
- `syncwarp` orders the lanes it names: a row of 32 clocks per thread, which the lanes of a warp share after it. The
  row starts anew with every epoch.
- A fence followed by an atomic publishes; an atomic on the same element followed by a fence takes up (`Known`). This
  and barriers of the grid order blocks. A fence counts for all that take a barrier with the thread afterwards, and the
  taker's fence may be a barrier of its block, as the programming guide's own example of a last block wants it. A fence
  for the block takes up what its own block has published, and no more.

Shuffles and votes order no memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .memory import SHARED_BASE

NOTHING = (-1,) * 32  # a row that knows no lane's clock


@dataclass
class Known:
    """What was taken up through atomics: of whole blocks the epochs that are past, of single threads their clocks."""

    epochs: dict[int, int] = field(default_factory=dict)  # block -> epochs below this are ordered before
    clocks: dict[tuple[int, int], int] = field(default_factory=dict)  # (block, thread) -> clocks up to this are

    def merge(self, other: Known) -> None:
        for block, epoch in other.epochs.items():
            self.epochs[block] = max(epoch, self.epochs.get(block, 0))
        for thread, clock in other.clocks.items():
            self.clocks[thread] = max(clock, self.clocks.get(thread, -1))

    def of_block(self, number: int) -> Known:
        """What of it concerns threads of this block."""
        epochs = {block: epoch for block, epoch in self.epochs.items() if block == number}
        return Known(epochs, {thread: clock for thread, clock in self.clocks.items() if thread[0] == number})

    def copy(self) -> Known:
        return Known(dict(self.epochs), dict(self.clocks))

    def covers(self, block: int, thread: int, epoch: int, clock: int) -> bool:
        return epoch < self.epochs.get(block, 0) or clock <= self.clocks.get((block, thread), -1)


def knowledge_of(thread) -> Known:
    """Everything that is ordered before this thread's next access, as something that can be published."""
    known = thread.known.copy() if thread.known else Known()
    block = thread.block
    known.merge(Known({block.number: block.epoch}, {(block.number, thread.index): thread.clock}))
    first = 32 * thread.warp
    rest = {(block.number, first + lane): clock for lane, clock in enumerate(thread.row) if clock >= 0}
    known.merge(Known({}, rest))
    return known


def merge_knowledge(pieces) -> Known | None:
    """All that any of these knows; None where none knows anything."""
    pieces = [p for p in pieces if p is not None]
    if not pieces:
        return None
    whole = Known()
    for piece in {id(p): p for p in pieces}.values():
        whole.merge(piece)
    return whole


class Publications:
    """What has been published at each element by fences and atomics."""

    def __init__(self):
        self.at: dict[object, Known] = {}
        self.has_fences = False  # without any, atomics publish nothing

    def fence(self, thread, whole_device: bool) -> None:
        """Takes up what the thread's atomics have found; its next atomic may publish all that it has done so far."""
        self.has_fences = True
        if thread.acquired is not None:
            acquired = thread.acquired if whole_device else thread.acquired.of_block(thread.block.number)
            thread.known = merge_knowledge([thread.known, acquired])
            thread.acquired = None if whole_device else thread.acquired
        knowledge = knowledge_of(thread)
        thread.fenced_block = merge_knowledge([thread.fenced_block, knowledge])
        if whole_device:
            thread.fenced = merge_knowledge([thread.fenced, knowledge])
        thread.clock += 1  # what comes after the fence is not covered by it

    def atomic_synchronizes(self, thread, address: int) -> bool:
        """Whether an atomic has anything to add or to take up."""
        is_published = address in self.at or (address, thread.block.number) in self.at
        return is_published or thread.fenced_block is not None  # which `fence` sets in either case

    def publish_by_atomic(self, thread, address: int) -> bool:
        """An atomic finds what stands at the element, and adds what its thread has fenced. True: it found something.

        What it finds is taken up by the thread's next fence or barrier.

        Shared memory has the same addresses in every block: what is published there is published to its block.
        """
        number = thread.block.number
        to_device = None if address >= SHARED_BASE else thread.fenced
        published = merge_knowledge([self.at.get(address), self.at.get((address, number))])
        if published is not None:
            thread.acquired = merge_knowledge([thread.acquired, published])
        for key, fenced in ((address, to_device), ((address, number), thread.fenced_block)):
            if fenced is not None:
                self.at[key] = merge_knowledge([self.at.get(key), fenced])
        return published is not None
