"""Attention inside each sentence: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ...device.low_precision import cast_for_cache
from ..attention import (
    draw_array,
    draw_normal_array,
    draw_position_bias,
    look_up_bias_of_row,
    make_oracle_and_error_bound,
    make_random_position_bias,
)
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH


def offsets_from_lengths(lengths: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def cast_arguments_to_float16(array: np.ndarray) -> np.ndarray:
    return cast_for_cache(np.dtype(np.float16), array)


@st.composite
def draw_inputs(draw):
    """Sentences of different lengths, seen by themselves or their last parts, with and without a window, or others."""
    G, per_group, size = draw(st.integers(1, 2)), draw(st.integers(1, 3)), st.integers(1, 3)
    targets = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    causal = draw(st.booleans())
    sources = draw(st.lists(st.integers(0 if causal else 1, 4), min_size=len(targets), max_size=len(targets)))
    if causal:  # this many keys of earlier parts
        sources = [earlier + queries for earlier, queries in zip(sources, targets, strict=True)]
    K, U = draw(size), draw(size)
    q_RHK = draw_array(draw, sum(targets), G * per_group, K)
    k_XGK, v_XGU = draw_array(draw, sum(sources), G, K), draw_array(draw, sum(sources), G, U)
    scale, window = draw(st.sampled_from([1.0, 0.5, 0.125])), draw(st.sampled_from([None, 1, 2]))
    offsets = offsets_from_lengths(targets), offsets_from_lengths(sources)
    arguments = q_RHK, k_XGK, v_XGU, *offsets, scale, causal, window if causal else None
    return draw_position_bias(draw, arguments, G * per_group, sum(targets))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)

    def make_case(targets, sources, G, H, K, U, causal=False, window=None, scale=0.7, **of_bias):
        arrays = (
            draw_normal_array(rng, sum(targets), H, K),
            draw_normal_array(rng, sum(sources), G, K),
            draw_normal_array(rng, sum(sources), G, U),
        )
        bias = [make_random_position_bias(rng, H, **of_bias)] if of_bias else []
        return [*arrays, offsets_from_lengths(targets), offsets_from_lengths(sources), scale, causal, window, *bias]

    rising = make_case([3, 2], [70, 3], 1, 2, 4, 3)
    rising[0][:], rising[1][:] = 1.0, np.linspace(0, 25, 73, dtype=np.float32)[:, None, None]  # ever larger scores
    outlier = make_case([12], [12], 2, 4, 5, 3, causal=True)
    outlier[1][7] *= 30  # one key that draws all the weight, for rows that see it
    steep = make_case(
        [9, 12], [9, 12], 3, 3, 5, 4, causal=True, scale=40.0
    )  # exponentials overflow if nothing is taken off
    ahead = make_case([5, 4], [5, 4], 1, 2, 3, 2, causal=True)
    ahead[2][:] = 10.0 ** np.arange(9, dtype=np.float32)[:, None, None]  # a single position too many drowns the answer
    cases = [
        tuple(c)
        for c in [
            make_case([5, 1, 4], [5, 1, 4], 2, 4, 3, 2, causal=True),
            make_case([7, 3], [7, 3], 1, 4, 4, 5, causal=True, window=3),
            make_case([1, 4], [33, 31], 3, 3, 2, 3),  # an encoder's output, seen by the rows of a target
            make_case([31], [33], 2, 6, 5, 3),
            make_case([1], [1], 1, 1, 1, 1),
            make_case([1], [1], 1, 2, 33, 31, causal=True),
            rising,
            outlier,
            steep,
            ahead,
            make_case([1, 33], [1, 33], 1, 1, 31, 33, causal=True),
            make_case([2], [33], 1, 2, 64, 64),  # the width of GPT-2's heads
            make_case([41], [41], 1, 1, 3, 2, causal=True, window=32),  # past a warp's columns on both sides
            make_case([3, 3], [140, 3], 2, 4, 4, 3, causal=True, buckets=32),  # a position bias, to its last bucket
            make_case([20, 5], [20, 5], 1, 3, 5, 4, buckets=8, farthest=12, two_sided=True),  # of an encoder
            make_case(
                [40, 1], [40, 1], 1, 2, 3, 2, causal=True, window=9, buckets=8, farthest=12, rows=41
            ),  # one for each
            make_case(
                [7, 1, 2], [40, 34, 2], 2, 4, 5, 3, causal=True
            ),  # the last parts of longer texts, and a whole one
            make_case([20, 1], [50, 18], 1, 2, 4, 3, causal=True, window=17),
            make_case([9, 3], [60, 3], 1, 2, 3, 2, causal=True, buckets=8, farthest=12),
        ]
    ]
    # Each sees a single key somewhere, whose weight is 1: there the result is a value, to the last bit but few.
    halves = (0, 1, 3, 5, 9, 10, 13, 15, 16)
    return cases + [(*map(cast_arguments_to_float16, cases[k][:3]), *cases[k][3:]) for k in halves]


def large_cases() -> list[tuple]:
    """Many sentences, many positions on either side, many heads, wide ones, and counts at the edges of blocks."""
    rng, cases = np.random.default_rng(1), []
    for targets, sources, causal in [
        ([1] * len(BOUNDARIES), BOUNDARIES, False), ([65], [65], True), ([129], [129], True),
        ([1] * ROWS, [1] * ROWS, True), ([1], [POSITIONS], False), ([1, 5], [POSITIONS, 9], True),
        ([POSITIONS], [2], False), ([1] * MANY_ROWS, [2] * MANY_ROWS, False),
    ]:  # fmt: skip
        arrays = (draw_normal_array(rng, sum(lengths), 1, WIDTH) for lengths in (targets, sources, sources))
        cases.append((*arrays, offsets_from_lengths(targets), offsets_from_lengths(sources), 0.7, causal))
    for G, K in LARGE_HEADS:
        arrays = (draw_normal_array(rng, 2, G, K) for _ in range(3))
        cases.append((*arrays, offsets_from_lengths([2]), offsets_from_lengths([2]), 0.1, True))
    return cases


def attend_row_arguments(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None):
    """Row by row: its queries, and the keys and values that it sees."""
    for b in range(len(q_offsets_X) - 1):
        for r in range(q_offsets_X[b], q_offsets_X[b + 1]):
            begin, end = k_offsets_X[b], k_offsets_X[b + 1]
            position = r - q_offsets_X[b]
            if causal:
                end = k_offsets_X[b + 1] - (q_offsets_X[b + 1] - r) + 1
                begin, position = begin if window is None else max(begin, end - window), end - 1 - k_offsets_X[b]
            bias_HM = look_up_bias_of_row(bias, r, position - (np.arange(begin, end) - k_offsets_X[b]))
            yield q_RHK[r], k_XGK[begin:end].swapaxes(0, 1), v_XGU[begin:end].swapaxes(0, 1), scale, bias_HM


oracle, error_bound = make_oracle_and_error_bound(attend_row_arguments)


REPEATED = {"q_RHK": 1, "k_XGK": 1, "v_XGU": 1}  # heads: more tokens would need other offsets


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """BART-base's encoder over 8 sources of 512 tokens."""
    rng = np.random.default_rng(seed)
    B, N, H, K = 8, 512, 12, 64
    arrays = (draw_normal_array(rng, B * N, H, K) for _ in range(3))
    offsets = offsets_from_lengths([N] * B)
    return (*arrays, offsets, offsets, K**-0.5, False), f"{B} sources of {N} tokens, {H} heads of {K} numbers"
