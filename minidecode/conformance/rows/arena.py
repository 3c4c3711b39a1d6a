"""Places for lifetimes in one block: inputs that find mistakes, and which answers are right.

Many are. `find_fault` says what must hold for a step to run at all; `find_broken_promise` what every greedy planner
keeps, whatever its order and whichever gap it likes, and what an optimal one keeps too. No factor of the lower bound
(the most that is alive at one call) is promised: none can be proven for greedy planners of such arrays that would be of
any use.
The proof of the second promise: let one array alone end where the block ends, and let it fit lower. Then it did when it
was placed, for there were fewer in its way. So it was put into a gap, and whatever is above that gap ends higher.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ...ops import ALIGNED
from ..sizes import ROWS

HANDED_OUT = False  # and before there is a block


def make_arguments(arrays: list[tuple[int, int, int]]) -> tuple:
    """(bytes_X, first_X, last_X) from (bytes, first, last) of each."""
    return tuple(np.array(column, np.int64) for column in zip(*arrays, strict=True))


@st.composite
def draw_inputs(draw):
    """Few calls, so that many meet and many do not; sizes beside multiples of a cache line, equal ones, and none."""
    size, call = st.sampled_from([0, 1, 63, 64, 65, 128, 128, 192, 200, 320]), st.integers(0, 6)
    one = st.tuples(size, call, call).map(lambda drawn: (drawn[0], min(drawn[1:]), max(drawn[1:])))
    return make_arguments(draw(st.lists(one, min_size=1, max_size=9)))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    first_X, calls_X = rng.integers(0, 60, 80), rng.geometric(0.3, 80) - 1
    sizes_X = rng.choice([5, 64, 100, 640, 4096, 40_000], 80)
    return [
        make_arguments([(64, 0, 0)]),
        make_arguments([(100, 0, 1), (100, 2, 3)]),  # one behind the other in time: one place
        make_arguments([(64, 0, 1), (64, 1, 2)]),  # the second is written while the first is read
        make_arguments([(64, 0, 2), (64, 1, 1), (64, 1, 1)]),  # two that live for one call
        make_arguments([(10, 0, 3), (10, 0, 3), (10, 0, 3)]),  # none ends where the next may begin
        make_arguments([(128, 0, 1), (128, 1, 2), (128, 2, 3), (128, 3, 4)]),  # a chain: two places
        make_arguments([(0, 0, 5), (64, 0, 5), (0, 2, 2)]),  # of no bytes
        make_arguments([(64, 0, 2), (128, 0, 0), (256, 1, 1)]),  # first come leaves no gap for the large one
        make_arguments([(1, 0, 9), (4096, 0, 3), (4096, 4, 9), (1, 3, 4)]),
        make_arguments([(640, 4, 4), (320, 3, 4), (320, 4, 5), (640, 0, 2), (64, 2, 3)]),  # not in the order of calls
        make_arguments([(64, call, call) for call in range(0, 3000, 100)]),  # calls far apart: all in one place
        make_arguments(list(zip(sizes_X.tolist(), first_X.tolist(), (first_X + calls_X).tolist(), strict=True))),
    ]


def large_cases() -> list[tuple]:
    """Many arrays, and more calls than sixteen bits count."""
    rng = np.random.default_rng(1)
    first_X = rng.integers(0, 70_000, ROWS)
    return [make_arguments([(int(size), int(first), int(first) + 300) for size, first in
                          zip(rng.choice([5, 64, 100, 640, 4096], ROWS), first_X, strict=True)])]  # fmt: skip


def oracle(bytes_X, first_X, last_X):
    """One right answer: a buffer for each."""
    offsets, end = [], 0
    for size in bytes_X.tolist():
        offsets.append(end)
        while end < offsets[-1] + size:
            end += ALIGNED
    return np.array(offsets)


def find_fault(offset_X, bytes_X, first_X, last_X) -> str | None:
    """What would make a step compute nonsense, in words."""
    for x, offset in enumerate(offset_X):
        if offset < 0 or offset % ALIGNED:
            return f"offset_X[{x}] is {offset}; right is a multiple of {ALIGNED}, from 0 up."
    for x, y in np.argwhere(_pairs_live_together(first_X, last_X) & _pairs_sharing_bytes(offset_X, bytes_X)):
        if x < y:
            call = max(first_X[x], first_X[y])
            return f"Arrays {x} and {y} share bytes, and call {call} needs both."
    return None


def find_broken_promise(offset_X, bytes_X, first_X, last_X) -> str | None:
    """What makes the block larger than it need be, in words. Arrays of no bytes do not."""
    end_X = np.where(bytes_X > 0, offset_X + bytes_X, 0)
    separate = int((-(-bytes_X // ALIGNED) * ALIGNED).sum())
    if end_X.max() > separate:
        return f"The block is larger than it need be: {end_X.max()} bytes, where a buffer for each takes {separate}."
    top, meets_XX = int(end_X.argmax()), _pairs_live_together(first_X, last_X)
    for begin in range(0, int(offset_X[top]), ALIGNED):
        in_the_way_X = meets_XX[top] & (begin < end_X) & (offset_X < begin + bytes_X[top]) & (bytes_X > 0)
        in_the_way_X[top] = False
        smaller = max(np.delete(end_X, top).max(initial=0), begin + bytes_X[top])
        if smaller < end_X[top] and not in_the_way_X.any():
            return (
                f"The block is larger than it need be: {end_X[top]} bytes, where {smaller} are enough, for array {top} "
                f"may lie at {begin}."
            )
    return None


def bytes_needed(offset_X, bytes_X, first_X, last_X) -> int:
    """What planning is for: the bytes of the block. `compare` tells how many times smaller than the naive one it is."""
    return int(((offset_X + bytes_X) * (bytes_X > 0)).max())


def timing_notes(bytes_X, first_X, last_X) -> list[str]:
    """What a reader of the table must know."""
    least = (bytes_X @ ((first_X[:, None] <= first_X) & (first_X <= last_X[:, None]))).max()
    return [
        f"{least:,} bytes are alive at one call: no block can be smaller",
        "timed is the planner itself, in Python on the host, once before the first step and never within one; what it"
        " buys is a smaller block",
    ]


def _pairs_live_together(first_X, last_X) -> np.ndarray:
    """Whether some call needs both of a pair, for each pair."""
    return (first_X[:, None] <= last_X) & (first_X <= last_X[:, None])


def _pairs_sharing_bytes(offset_X, bytes_X) -> np.ndarray:
    """Whether both of a pair share a byte, for each pair."""
    end_X = offset_X + bytes_X
    return np.maximum(offset_X[:, None], offset_X) < np.minimum(end_X[:, None], end_X)


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """What a step of LightSeq's decoder makes: 12 layers of width 1024, 8 sentences of 4 beams, 30,000 tokens."""
    R, D, F, V, arrays, call = 32 + seed, 1024, 4096, 30_000, [], 0

    def add_array(numbers: int, calls: int) -> None:
        arrays.append((4 * R * numbers, call, call + calls))

    add_array(D, 6)
    for _ in range(12):  # of each call its result, and how many calls further it is read last
        for numbers, calls in [(3 * D, 1), (D, 1), (D, 1), (D, 1), (D, 5), (D, 1), (D, 1), (D, 1), (D, 1), (D, 6),
                               (F, 1), (F, 1), (D, 1)]:  # fmt: skip
            add_array(numbers, calls)
            call += 1
    add_array(V, 1)
    call += 1
    add_array(V, 2)
    return make_arguments(arrays), f"{len(arrays)} intermediates of {call + 1} calls"
