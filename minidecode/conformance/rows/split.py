"""Attention over a shared prompt and over what beams have generated: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..attention import STORED as STORED
from ..attention import (
    cast_caches_of_paper_inputs,
    cast_caches_to_float16,
    draw_array,
    draw_caches_in_float16_or_32,
    draw_key_and_value_widths,
    draw_normal_array,
    draw_position_bias,
    look_up_bias_of_row,
    make_oracle_and_error_bound,
    make_random_position_bias,
    poison_unseen_positions,
)
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH


def make_arguments(
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
def draw_inputs(draw):
    """A few sentences of different lengths, of which a row may see nothing, and beams of narrow heads."""
    B, W = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    N, T = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    G, per_group = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    K, U = draw_key_and_value_widths(draw)
    prompt_begin_B = [draw(st.integers(0, N)) for _ in range(B)]
    begin_R = [draw(st.integers(0, T - 1)) for _ in range(B * W)]
    end_R = [draw(st.integers(begin + 1, T)) for begin in begin_R]
    q_RHK = draw_array(draw, B * W, G * per_group, K)
    prompt = draw_array(draw, B, G, N, K), draw_array(draw, B, G, N, U)
    generated = draw_array(draw, B * W, G, T, K), draw_array(draw, B * W, G, T, U)
    scale = draw(st.sampled_from([1.0, 0.5, 0.125]))
    arguments = draw_caches_in_float16_or_32(
        draw, make_arguments(q_RHK, *prompt, prompt_begin_B, *generated, begin_R, end_R, scale)
    )
    return draw_position_bias(draw, arguments, G * per_group, B * W)


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)

    def make_case(prompt_begin_B, begin_R, end_R, G, H, N, T, K, U, scale=0.7, **of_bias):
        B, R = len(prompt_begin_B), len(begin_R)
        prompt = draw_normal_array(rng, B, G, N, K), draw_normal_array(rng, B, G, N, U)
        generated = draw_normal_array(rng, R, G, T, K), draw_normal_array(rng, R, G, T, U)
        bias = [make_random_position_bias(rng, H, **of_bias)] if of_bias else []
        return make_arguments(
            draw_normal_array(rng, R, H, K), *prompt, prompt_begin_B, *generated, begin_R, end_R, scale, *bias
        )

    def make_case_of_sloping_scores(first, last):
        """Scores that rise along both parts, or fall: a new maximum at every step, or none but the first."""
        arguments = make_case([0, 3], [0, 2], [20, 19], 1, 2, 40, 20, 4, 3)
        scores_M = np.linspace(first, last, 60, dtype=np.float32)[:, None]
        arguments[0][:], arguments[1][:], arguments[4][:] = 1.0, scores_M[:40], scores_M[40:]
        return arguments

    equal = make_case([0, 7], [0] * 4, [5, 5, 6, 6], 1, 1, 40, 6, 3, 2)
    equal[1][:], equal[4][:] = 1.0, 1.0  # all scores of a row are equal, and in one sentence the values too
    equal[2][0], equal[5][:2] = 0.1, 0.1
    steep = make_case([0, 2], [0, 0], [33, 31], 1, 3, 33, 35, 5, 4, scale=40.0)  # exponentials overflow as they are
    return [
        make_case([0, 3], [0] * 4, [3, 2, 2, 3], 2, 4, 5, 4, 3, 2),  # sentences of different lengths
        make_case(
            [1, 4], [0, 1, 2, 0, 2, 1], [3, 3, 3, 3, 3, 2], 1, 4, 4, 3, 4, 4
        ),  # windows; one sees nothing of a prompt
        make_case([2, 0], [0] * 4, [1] * 4, 3, 3, 7, 3, 2, 3),  # the first step
        make_case_of_sloping_scores(0, 25),
        make_case_of_sloping_scores(25, 0),
        equal,
        steep,
        make_case([0, 31], [0, 0], [33, 32], 1, 3, 33, 33, 5, 3),
        cast_caches_to_float16(
            make_case([0, 3], [0, 1, 0, 2], [20, 19, 17, 20], 2, 4, 40, 20, 16, 8)
        ),  # a cache of half precision
        make_case([0], [0] * 5, [4, 4, 3, 4, 4], 1, 2, 6, 6, 3, 5),
        make_case([0], [0], [1], 1, 1, 1, 1, 1, 1),
        make_case([1], [0], [1], 1, 1, 1, 1, 1, 1),
        make_case([0, 1], [0, 31], [31, 32], 1, 1, 32, 32, 1, 33),
        make_case(
            [5, 100], [0, 70], [92, 90], 1, 2, 100, 92, 4, 6
        ),  # long enough to be cut in ranges; see some of them
        make_case([0], [0, 0], [5, 4], 1, 1, 33, 5, 64, 64),  # the width of GPT-2's heads
        make_case([3], [0, 1], [3, 4], 1, 1, 35, 5, 130, 66),  # wider than there is room for
        make_case([2], [0] * 5, [2, 3, 3, 2, 3], 1, 4, 9, 3, 3, 2),  # more queries than a block takes
        make_case(
            [0, 4], [0] * 4, [30, 30, 29, 29], 2, 4, 110, 30, 4, 3, buckets=32
        ),  # a position bias, to its last bucket
        make_case([1], [0, 1, 2], [9, 8, 7], 1, 2, 5, 9, 3, 2, buckets=8, farthest=12, rows=3),  # one for each row
        cast_caches_to_float16(make_case([0, 3], [0, 0], [9, 9], 1, 2, 8, 9, 16, 8, buckets=8, farthest=12)),
        make_case([1], [0], [5], 1, 2, 9, 6, 300, 290, buckets=8, farthest=12),  # wider than there is room for
        make_case([1, 4], [0, 1, 2, 2], [5, 3, 7, 3], 1, 1, 4, 7, 16, 16),  # heads of whole 128-bit loads
        cast_caches_to_float16(make_case([0], [0, 1], [35, 3], 1, 2, 40, 35, 32, 32)),
        make_case([70], [0, 5], [40, 39], 1, 2, 480, 40, 16, 16),
    ]


def large_cases() -> list[tuple]:
    """Many sentences, many positions in either part, many heads, wide ones, and counts at the edges of blocks."""
    rng, cases, edge = np.random.default_rng(1), [], BOUNDARIES[-1]
    for begins, N, ends, T in [
        ([edge - n for n in BOUNDARIES], edge, [1] * len(BOUNDARIES), 1), ([0] * len(BOUNDARIES), 1, BOUNDARIES, edge),
        ([0] * ROWS, 1, [1] * ROWS, 1), ([0], POSITIONS, [1], 1), ([0], 1, [POSITIONS], POSITIONS),
        ([0] * MANY_ROWS, 1, [1] * MANY_ROWS, 1),
    ]:  # fmt: skip
        B = len(begins)
        prompt, generated = ([draw_normal_array(rng, B, 1, length, WIDTH) for _ in range(2)] for length in (N, T))
        cases.append(
            make_arguments(draw_normal_array(rng, B, 1, WIDTH), *prompt, begins, *generated, [0] * B, ends, 0.7)
        )
    for G, K in LARGE_HEADS:
        prompt, generated = ([draw_normal_array(rng, 1, G, 2, K) for _ in range(2)] for _ in range(2))
        cases.append(make_arguments(draw_normal_array(rng, 1, G, K), *prompt, [0], *generated, [0], [2], 0.1))
    return cases


def attend_row_arguments(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None
):
    """Row by row: its queries, and the keys and values of what it sees of its prompt and of its own."""
    W = len(q_RHK) // len(prompt_k_BGNK)
    for r, q_HK in enumerate(q_RHK):
        b, generated = r // W, slice(begin_R[r], end_R[r])
        prompt = slice(prompt_begin_B[b], None)
        k_GMK = np.concatenate([prompt_k_BGNK[b, :, prompt], k_RGTK[r, :, generated]], axis=1)
        v_GMU = np.concatenate([prompt_v_BGNU[b, :, prompt], v_RGTU[r, :, generated]], axis=1)
        N = prompt_k_BGNK.shape[2]
        position_M = [*range(prompt_begin_B[b], N), *range(N + begin_R[r], N + end_R[r])]
        yield q_HK, k_GMK, v_GMU, scale, look_up_bias_of_row(bias, r, N + end_R[r] - 1 - np.array(position_M))


oracle, error_bound = make_oracle_and_error_bound(attend_row_arguments)


def make_paper_inputs(stored: str = "float32", *, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of GPT-2 on CNN/DailyMail (FastSeq, section 5): long articles, 4 beams, 50 tokens generated."""
    rng = np.random.default_rng(seed)
    B, W, H, N, T, width = 4, 4, 12, 900, 50, 64
    prompt = draw_normal_array(rng, B, H, N, width), draw_normal_array(rng, B, H, N, width)
    generated = draw_normal_array(rng, B * W, H, T, width), draw_normal_array(rng, B * W, H, T, width)
    begins = np.zeros(B, np.int64), np.zeros(B * W, np.int64)
    shape = f"{B} sentences of {W} beams, {H} heads of {width}, {N} prompt and {T} generated positions"
    q_RHK = draw_normal_array(rng, B * W, H, width)
    return cast_caches_of_paper_inputs(
        stored, (q_RHK, *prompt, begins[0], *generated, begins[1], np.full(B * W, T), width**-0.5), shape
    )
