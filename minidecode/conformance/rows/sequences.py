"""The texts of a step: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import BOUNDARIES, MANY_ROWS, POSITIONS, ROWS


def make_arguments(parents: list[list[int]], lengths: list[int], M: int) -> tuple:
    """(text_BWM, parent_BW, token_BW, length_B); no token stands twice, so that each says where it comes from."""
    parent_BW = np.array(parents)
    B, W = parent_BW.shape
    text_BWM = np.arange(1, 1 + B * W * M).reshape(B, W, M)
    token_BW = -np.arange(1, 1 + B * W).reshape(B, W)
    return text_BWM, parent_BW, token_BW, np.array(lengths)


@st.composite
def draw_inputs(draw):
    """Any beam may go on from any of its sentence, or stay; each sentence has its own length."""
    B, W, M = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    parents = draw(st.lists(st.lists(st.integers(0, W - 1), min_size=W, max_size=W), min_size=B, max_size=B))
    return make_arguments(parents, draw(st.lists(st.integers(0, M - 1), min_size=B, max_size=B)), M)


def planted_cases() -> list[tuple]:
    cases = [
        make_arguments([[1, 0]], [2], 4),  # beams change places: the first one written is still to be read
        make_arguments([[1, 2, 0], [0, 0, 1]], [3, 1], 5),  # a ring; each from the one before it; two lengths
        make_arguments([[1, 2, 2]], [2], 3),  # from the one behind it: wrong if texts are written in reverse
        make_arguments([[0, 1], [1, 1]], [1, 2], 4),  # all of one sentence stay, and get their tokens
        make_arguments([[0], [0], [0]], [1, 2, 0], 3),  # one beam each; nothing is written yet
        make_arguments([[2, 2, 2], [1, 0, 2]], [4, 4], 5),  # all from one; the last position is the new one
        make_arguments([[1, 0, 3, 2]] * 2, [33, 32], 40),  # past the 32 positions of a block, and up to them
        make_arguments([[3, 0, 1, 2], [0, 0, 0, 0]], [0, 6], 7),
    ]
    rng = np.random.default_rng(0)
    for B, W, M in [(5, 4, 70), (2, 9, 33), (1, 70, 5), (40, 2, 3)]:  # past warps, tiles, rooms, blocks
        cases.append(make_arguments(rng.integers(0, W, (B, W)).tolist(), rng.integers(M // 2, M, B).tolist(), M))
    return cases


def large_cases() -> list[tuple]:
    """Many sentences, late positions, and lengths at the edges of blocks."""
    return [
        make_arguments([[1, 0]] * len(BOUNDARIES), list(BOUNDARIES), BOUNDARIES[-1] + 1),
        make_arguments([[1, 0]] * ROWS, [1] * ROWS, 2),
        make_arguments([[1, 0]], [POSITIONS - 1], POSITIONS),
        make_arguments([[0]] * MANY_ROWS, [1] * MANY_ROWS, 2),
    ]


def oracle(text_BWM, parent_BW, token_BW, length_B):
    """A new table, place by place; what is not written yet stays."""
    result_BWM = text_BWM.copy()
    for b, w, m in np.ndindex(text_BWM.shape):
        if m < length_B[b]:
            result_BWM[b, w, m] = text_BWM[b, parent_BW[b, w], m]
        if m == length_B[b]:
            result_BWM[b, w, m] = token_BW[b, w]
    return result_BWM


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """The texts beside the cache of row `reorder`: prompts of 64 tokens, 64 more, and room for as many again."""
    rng = np.random.default_rng(seed)
    B, W, length = 32, 4, 128
    best_BW = np.sort(rng.integers(0, W, (B, W)), axis=1)  # the best beam has most children
    return make_arguments(best_BW.tolist(), [length] * B, length + 64), f"{B} sentences of {W} beams, {length} tokens"
