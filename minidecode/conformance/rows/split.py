"""Attention over a shared prompt and over what beams have generated: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..attention import STORED as STORED
from ..attention import (
    bias_of_row,
    caches_in_float16,
    draw_array,
    draw_bias,
    draw_cache_type,
    draw_widths,
    normal_numbers,
    oracle_and_bound,
    poison_unseen_positions,
    position_bias,
    store_timed_caches,
)
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH


def arguments_of(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, *bias
) -> tuple:
    """The positional arguments, with poison in the padding of prompts and in what is not written or not seen."""
    prompt_begin_B, begin_R, end_R = np.array(prompt_begin_B), np.array(begin_R), np.array(end_R)
    prompt_end_B = np.full(len(prompt_k_BGNK), prompt_k_BGNK.shape[2])
    prompt = poison_unseen_positions(prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, prompt_end_B)
    return (
        q_RHK,
        *prompt,
        prompt_begin_B,
        *poison_unseen_positions(k_RGTK, v_RGTU, begin_R, end_R),
        begin_R,
        end_R,
        scale,
        *bias,
    )


@st.composite
def inputs(draw):
    """A few sentences of different lengths, of which a row may see nothing, and beams of narrow heads."""
    B, W = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    N, T = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    G, per_group = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    K, U = draw_widths(draw)
    prompt_begin_B = [draw(st.integers(0, N)) for _ in range(B)]
    begin_R = [draw(st.integers(0, T - 1)) for _ in range(B * W)]
    end_R = [draw(st.integers(begin + 1, T)) for begin in begin_R]
    q_RHK = draw_array(draw, B * W, G * per_group, K)
    prompt = draw_array(draw, B, G, N, K), draw_array(draw, B, G, N, U)
    generated = draw_array(draw, B * W, G, T, K), draw_array(draw, B * W, G, T, U)
    scale = draw(st.sampled_from([1.0, 0.5, 0.125]))
    arguments = draw_cache_type(draw, arguments_of(q_RHK, *prompt, prompt_begin_B, *generated, begin_R, end_R, scale))
    return draw_bias(draw, arguments, G * per_group, B * W)


def planted() -> list[tuple]:
    rng = np.random.default_rng(0)

    def case(prompt_begin_B, begin_R, end_R, G, H, N, T, K, U, scale=0.7, **of_bias):
        B, R = len(prompt_begin_B), len(begin_R)
        prompt = normal_numbers(rng, B, G, N, K), normal_numbers(rng, B, G, N, U)
        generated = normal_numbers(rng, R, G, T, K), normal_numbers(rng, R, G, T, U)
        bias = [position_bias(rng, H, **of_bias)] if of_bias else []
        return arguments_of(
            normal_numbers(rng, R, H, K), *prompt, prompt_begin_B, *generated, begin_R, end_R, scale, *bias
        )

    def slope(first, last):
        """Scores that rise along both parts, or fall: a new maximum at every step, or none but the first."""
        arguments = case([0, 3], [0, 2], [20, 19], 1, 2, 40, 20, 4, 3)
        scores_M = np.linspace(first, last, 60, dtype=np.float32)[:, None]
        arguments[0][:], arguments[1][:], arguments[4][:] = 1.0, scores_M[:40], scores_M[40:]
        return arguments

    equal = case([0, 7], [0] * 4, [5, 5, 6, 6], 1, 1, 40, 6, 3, 2)
    equal[1][:], equal[4][:] = 1.0, 1.0  # all scores of a row are equal, and in one sentence the values too
    equal[2][0], equal[5][:2] = 0.1, 0.1
    steep = case([0, 2], [0, 0], [33, 31], 1, 3, 33, 35, 5, 4, scale=40.0)  # exponentials overflow as they are
    return [
        case([0, 3], [0] * 4, [3, 2, 2, 3], 2, 4, 5, 4, 3, 2),  # sentences of different lengths
        case([1, 4], [0, 1, 2, 0, 2, 1], [3, 3, 3, 3, 3, 2], 1, 4, 4, 3, 4, 4),  # windows; one sees nothing of a prompt
        case([2, 0], [0] * 4, [1] * 4, 3, 3, 7, 3, 2, 3),  # the first step
        slope(0, 25),
        slope(25, 0),
        equal,
        steep,
        case([0, 31], [0, 0], [33, 32], 1, 3, 33, 33, 5, 3),
        caches_in_float16(
            case([0, 3], [0, 1, 0, 2], [20, 19, 17, 20], 2, 4, 40, 20, 16, 8)
        ),  # a cache of half precision
        case([0], [0] * 5, [4, 4, 3, 4, 4], 1, 2, 6, 6, 3, 5),
        case([0], [0], [1], 1, 1, 1, 1, 1, 1),
        case([1], [0], [1], 1, 1, 1, 1, 1, 1),
        case([0, 1], [0, 31], [31, 32], 1, 1, 32, 32, 1, 33),
        case([5, 100], [0, 70], [92, 90], 1, 2, 100, 92, 4, 6),  # long enough to be cut in ranges; see some of them
        case([0], [0, 0], [5, 4], 1, 1, 33, 5, 64, 64),  # the width of GPT-2's heads
        case([3], [0, 1], [3, 4], 1, 1, 35, 5, 130, 66),  # wider than there is room for
        case([2], [0] * 5, [2, 3, 3, 2, 3], 1, 4, 9, 3, 3, 2),  # more queries than a block takes
        case([0, 4], [0] * 4, [30, 30, 29, 29], 2, 4, 110, 30, 4, 3, buckets=32),  # a position bias, to its last bucket
        case([1], [0, 1, 2], [9, 8, 7], 1, 2, 5, 9, 3, 2, buckets=8, farthest=12, rows=3),  # one for each row
        caches_in_float16(case([0, 3], [0, 0], [9, 9], 1, 2, 8, 9, 16, 8, buckets=8, farthest=12)),
        case([1], [0], [5], 1, 2, 9, 6, 300, 290, buckets=8, farthest=12),  # wider than there is room for
        case([1, 4], [0, 1, 2, 2], [5, 3, 7, 3], 1, 1, 4, 7, 16, 16),  # heads of whole 128-bit loads
        caches_in_float16(case([0], [0, 1], [35, 3], 1, 2, 40, 35, 32, 32)),
        case([70], [0, 5], [40, 39], 1, 2, 480, 40, 16, 16),
    ]


def large() -> list[tuple]:
    """Many sentences, many positions in either part, many heads, wide ones, and counts at the edges of blocks."""
    rng, cases, edge = np.random.default_rng(1), [], BOUNDARIES[-1]
    for begins, N, ends, T in [
        ([edge - n for n in BOUNDARIES], edge, [1] * len(BOUNDARIES), 1), ([0] * len(BOUNDARIES), 1, BOUNDARIES, edge),
        ([0] * ROWS, 1, [1] * ROWS, 1), ([0], POSITIONS, [1], 1), ([0], 1, [POSITIONS], POSITIONS),
        ([0] * MANY_ROWS, 1, [1] * MANY_ROWS, 1),
    ]:  # fmt: skip
        B = len(begins)
        prompt, generated = ([normal_numbers(rng, B, 1, length, WIDTH) for _ in range(2)] for length in (N, T))
        cases.append(arguments_of(normal_numbers(rng, B, 1, WIDTH), *prompt, begins, *generated, [0] * B, ends, 0.7))
    for G, K in LARGE_HEADS:
        prompt, generated = ([normal_numbers(rng, 1, G, 2, K) for _ in range(2)] for _ in range(2))
        cases.append(arguments_of(normal_numbers(rng, 1, G, K), *prompt, [0], *generated, [0], [2], 0.1))
    return cases


def seen(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None):
    """Row by row: its queries, and the keys and values of what it sees of its prompt and of its own."""
    W = len(q_RHK) // len(prompt_k_BGNK)
    for r, q_HK in enumerate(q_RHK):
        b, generated = r // W, slice(begin_R[r], end_R[r])
        prompt = slice(prompt_begin_B[b], None)
        k_GMK = np.concatenate([prompt_k_BGNK[b, :, prompt], k_RGTK[r, :, generated]], axis=1)
        v_GMU = np.concatenate([prompt_v_BGNU[b, :, prompt], v_RGTU[r, :, generated]], axis=1)
        N = prompt_k_BGNK.shape[2]
        position_M = [*range(prompt_begin_B[b], N), *range(N + begin_R[r], N + end_R[r])]
        yield q_HK, k_GMK, v_GMU, scale, bias_of_row(bias, r, N + end_R[r] - 1 - np.array(position_M))


oracle, bound = oracle_and_bound(seen)


def paper_inputs(stored: str = "float32", *, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of GPT-2 on CNN/DailyMail (FastSeq, section 5): long articles, 4 beams, 50 tokens generated."""
    rng = np.random.default_rng(seed)
    B, W, H, N, T, width = 4, 4, 12, 900, 50, 64
    prompt = normal_numbers(rng, B, H, N, width), normal_numbers(rng, B, H, N, width)
    generated = normal_numbers(rng, B * W, H, T, width), normal_numbers(rng, B * W, H, T, width)
    begins = np.zeros(B, np.int64), np.zeros(B * W, np.int64)
    shape = f"{B} sentences of {W} beams, {H} heads of {width}, {N} prompt and {T} generated positions"
    q_RHK = normal_numbers(rng, B * W, H, width)
    return store_timed_caches(
        stored, (q_RHK, *prompt, begins[0], *generated, begins[1], np.full(B * W, T), width**-0.5), shape
    )
