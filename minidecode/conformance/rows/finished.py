"""The texts that finish in a step: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import BOUNDARIES, MANY_ROWS, POSITIONS, ROWS


def make_arguments(slots: list[list[int]], parents: list[list[int]], at: list[int], M: int) -> tuple:
    """(finished_BWM, running_BWM, slot_BW, parent_BC, token_BC, at_B); no token stands twice: each says its source."""
    slot_BW, parent_BC = np.array(slots), np.array(parents)
    B, W = slot_BW.shape
    finished_BWM = np.arange(1, 1 + B * W * M).reshape(B, W, M)
    token_BC = -1 - np.arange(parent_BC.size).reshape(parent_BC.shape)
    return finished_BWM, 10**6 + finished_BWM, slot_BW, parent_BC, token_BC, np.array(at)


def _insert_candidates(W: int, candidates: list[int], places: list[int]) -> list[int]:
    """Candidates enter at these places, one after the other, as a search lets them; the others move down."""
    slots = list(range(W))
    for c, place in zip(candidates, places, strict=True):
        slots.insert(min(place, W - 1), W + c)
    return slots[:W]


@st.composite
def draw_inputs(draw):
    """Any candidates enter, each at any place; each sentence has its own length."""
    B, W, M = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    C, slots = draw(st.integers(W, 2 * W)), []
    for _ in range(B):
        candidates = draw(st.lists(st.integers(0, C - 1), max_size=W, unique=True))
        places = [draw(st.integers(0, W - 1)) for _ in candidates]
        slots.append(_insert_candidates(W, candidates, places))
    parents = draw(st.lists(st.lists(st.integers(0, W - 1), min_size=C, max_size=C), min_size=B, max_size=B))
    return make_arguments(slots, parents, draw(st.lists(st.integers(0, M - 1), min_size=B, max_size=B)), M)


def planted_cases() -> list[tuple]:
    cases = [
        make_arguments([[2, 0]], [[1, 0, 0, 1]], [2], 4),  # one enters before all: who is written first is still read
        make_arguments(
            [[0, 1], [0, 3]], [[1, 1], [0, 1]], [1, 3], 4
        ),  # nothing in one sentence; behind all in the other
        make_arguments([[0, 4, 1]], [[0, 2, 1, 0]], [3], 4),  # in the middle; the last one drops out
        make_arguments([[5, 3, 4]], [[1, 1, 0, 2]], [2], 5),  # all of one step, in another order
        make_arguments([[0, 0, 0]], [[0, 1, 2]], [1], 3),  # all places from one: no search does so, and it is allowed
        make_arguments([[1], [0], [2]], [[0, 0]] * 3, [0, 1, 2], 3),  # one beam; the first token; the last position
        make_arguments(
            [[4, 0, 1, 2]] * 2, [[3, 0, 1, 2]] * 2, [127, 128], 140
        ),  # up to a block's threads, and past them
        make_arguments([[3, 0, 4]], [[2, 1, 0]], [2], 40),  # long room behind the texts
    ]
    rng = np.random.default_rng(0)
    for B, W, M in [(5, 4, 70), (2, 9, 33), (1, 70, 5), (40, 2, 3)]:  # past warps, blocks, beams
        slots = [_random_slots(rng, W) for _ in range(B)]
        parents = rng.integers(0, W, (B, 2 * W)).tolist()
        cases.append(make_arguments(slots, parents, rng.integers(M // 2, M, B).tolist(), M))
    return cases


def _random_slots(rng: np.random.Generator, W: int) -> list[int]:
    entering = rng.permutation(2 * W)[: rng.integers(1, W)].tolist()
    return _insert_candidates(W, entering, rng.integers(0, W, len(entering)).tolist())


def large_cases() -> list[tuple]:
    """Many sentences, a late position, and positions at the edges of blocks."""
    rng, cases = np.random.default_rng(1), []
    sizes = [(list(BOUNDARIES), BOUNDARIES[-1] + 1), ([1] * ROWS, 2), ([POSITIONS - 1], POSITIONS)]
    for at, M in [*sizes, ([1] * MANY_ROWS, 2)]:
        slots = [_random_slots(rng, 2) for _ in at]
        cases.append(make_arguments(slots, rng.integers(0, 2, (len(at), 4)).tolist(), at, M))
    return cases


def oracle(finished_BWM, running_BWM, slot_BW, parent_BC, token_BC, at_B):
    """A new table, place by place; what is not written yet stays."""
    result_BWM, W = finished_BWM.copy(), slot_BW.shape[1]
    for b, w, m in np.ndindex(finished_BWM.shape):
        slot = slot_BW[b, w]
        if m > at_B[b]:
            continue
        if slot < W:
            result_BWM[b, w, m] = finished_BWM[b, slot, m]
        else:
            before = running_BWM[b, parent_BC[b, slot - W], m]
            result_BWM[b, w, m] = before if m < at_B[b] else token_BC[b, slot - W]
    return result_BWM


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """Texts of 128 tokens, as in row `sequences`; a new one finishes in every fourth sentence."""
    rng = np.random.default_rng(seed)
    B, W, length = 32, 4, 128
    slots = [_random_slots(rng, W) if b % 4 == 0 else list(range(W)) for b in range(B)]
    parents = rng.integers(0, W, (B, 2 * W)).tolist()
    return make_arguments(slots, parents, [length] * B, length + 65), f"{B} sentences of {W} beams, {length} tokens"
