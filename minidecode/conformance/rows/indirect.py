"""Attention through a table: inputs that find mistakes, what is right, and how near an answer must be."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..attention import STORED as STORED
from ..attention import (
    cast_caches_of_paper_inputs,
    cast_caches_to_float16,
    draw_caches_in_float16_or_32,
    draw_key_and_value_widths,
    draw_position_bias,
    look_up_bias_of_row,
    make_oracle_and_error_bound,
    make_random_position_bias,
)
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POISON, POSITIONS, ROWS


def make_arguments(
    B: int, W: int, N: int, T: int, *, G: int = 1, per_group: int = 1, K: int = 2, U: int = 2, begin: int = 0,
    padding: list[int] | None = None, end: int | None = None, seed: int = 0, **of_bias: Any,
) -> tuple:  # fmt: skip
    """The op's arguments for B sentences of W beams, whose table is as reorders at random leave it.

    Of T positions the first `end` are written, all if it is not said; `begin` is the first that is seen (a window).
    padding: of each prompt, N of them if it is out of sight.
    """
    rng = np.random.default_rng(seed)
    R = B * W

    def normal_array(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    q_RHK, prompt_k_BGNK, prompt_v_BGNU = (
        normal_array(R, G * per_group, K),
        normal_array(B, G, N, K),
        normal_array(B, G, N, U),
    )
    k_RGTK, v_RGTU, end = normal_array(R, G, T, K), normal_array(R, G, T, U), T if end is None else end
    indirection_RT = np.tile(np.arange(R)[:, None], T)
    for length in range(1, end):  # before each step the beams may change places
        parent_R = np.repeat(np.arange(B), W) * W + rng.integers(0, W, R)
        indirection_RT[:, :length] = indirection_RT[parent_R, :length]
    prompt_begin_B = np.zeros(B, np.int64) if padding is None else np.array(padding)
    for b in range(B):
        prompt_k_BGNK[b, :, : prompt_begin_B[b]], prompt_v_BGNU[b, :, : prompt_begin_B[b]] = POISON, POISON
    for part in (slice(begin), slice(end, None)):
        k_RGTK[:, :, part], v_RGTU[:, :, part] = POISON, POISON
    bias = [make_random_position_bias(rng, G * per_group, **of_bias)] if of_bias else []
    table = indirection_RT, np.full(R, begin), np.full(R, end), 0.7, *bias
    return q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, *table


@st.composite
def draw_inputs(draw):
    """A few sentences and beams, some padding, some windows that hide the prompt or a part of what is generated."""
    size = st.integers(1, 3)
    B, W, N, end = draw(size), draw(size), draw(st.integers(1, 5)), draw(st.integers(1, 5))
    G, per_group = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    K, U = draw_key_and_value_widths(draw)
    arguments = make_arguments(
        B, W, N, end + draw(st.integers(0, 2)), G=G, per_group=per_group,
        K=K, U=U, begin=draw(st.integers(0, end - 1)), end=end,
        padding=draw(st.lists(st.integers(0, N), min_size=B, max_size=B)), seed=draw(st.integers(0, 5)),
    )  # fmt: skip
    return draw_position_bias(draw, draw_caches_in_float16_or_32(draw, arguments), G * per_group, B * W)


def planted_cases() -> list[tuple]:
    """Shapes past warps, tiles and rooms; a score far above the others; one position alone."""
    cases = [
        make_arguments(2, 4, 5, 6),
        make_arguments(1, 4, 3, 9, end=7, padding=[3], begin=2),  # a window: no prompt, and not all that is generated
        make_arguments(2, 3, 1, 5, G=2, per_group=3, K=5, U=3, padding=[0, 1]),
        make_arguments(3, 1, 4, 3),  # one beam
        make_arguments(1, 2, 4, 3, end=1),  # the first step: nothing has moved yet
        cast_caches_to_float16(
            make_arguments(2, 3, 40, 20, G=2, per_group=2, K=16, U=8, padding=[0, 3])
        ),  # of half precision
        make_arguments(2, 2, 50, 40, K=64, U=64, end=35, padding=[0, 11]),
        make_arguments(2, 2, 4, 9, per_group=2, K=16, U=16, begin=3, end=7, padding=[0, 4]),  # whole 128-bit loads
        cast_caches_to_float16(make_arguments(1, 2, 500, 40, K=32, U=32, end=30, padding=[70])),
        make_arguments(1, 3, 33, 2, K=33, U=100, per_group=2),
        make_arguments(1, 2, 3, 4, K=300, U=290),
    ]
    biased = [
        make_arguments(2, 2, 110, 30, G=2, per_group=2, padding=[0, 4], buckets=32),  # a bias, to its last bucket
        make_arguments(1, 3, 5, 9, begin=2, buckets=8, farthest=12, rows=3),  # one for each row
        cast_caches_to_float16(make_arguments(1, 2, 8, 9, K=16, U=8, buckets=8, farthest=12)),
        make_arguments(1, 2, 9, 6, K=300, U=290, buckets=8, farthest=12),
    ]
    for far in (0, 1):  # the softmax has one peak: in the prompt, and among what was generated
        arguments = make_arguments(2, 2, 40, 40, K=8, U=8, seed=far)
        arguments[1 + 3 * far][:, :, 17] *= 30
        cases.append(arguments)
    return [*cases, *biased]


def large_cases() -> list[tuple]:
    """Many sentences, many positions, many heads, wide ones, and counts of positions at the edges of blocks."""
    cases = [make_arguments(1, 2, 2, n) for n in BOUNDARIES] + [make_arguments(1, 2, n, 2) for n in BOUNDARIES]
    cases += [make_arguments(B, 1, 1, 1) for B in (ROWS, MANY_ROWS)]
    cases += [make_arguments(1, 2, 1, 2, G=G, K=K, U=K) for G, K in LARGE_HEADS]
    return [*cases, make_arguments(1, 1, POSITIONS, 1), make_arguments(1, 1, 1, POSITIONS)]


def attend_row_arguments(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale,
    bias=None,
):  # fmt: skip
    """For each row its query and the keys and values that it sees, looked up one by one."""
    W = len(q_RHK) // len(prompt_k_BGNK)
    for r in range(len(q_RHK)):
        b, span = r // W, range(begin_R[r], end_R[r])
        seen_k = [prompt_k_BGNK[b, :, n] for n in range(prompt_begin_B[b], prompt_k_BGNK.shape[2])]
        seen_v = [prompt_v_BGNU[b, :, n] for n in range(prompt_begin_B[b], prompt_v_BGNU.shape[2])]
        seen_k += [k_RGTK[indirection_RT[r, t], :, t] for t in span]
        seen_v += [v_RGTU[indirection_RT[r, t], :, t] for t in span]
        N = prompt_k_BGNK.shape[2]
        distances = [N + end_R[r] - 1 - n for n in range(prompt_begin_B[b], N)] + [end_R[r] - 1 - t for t in span]
        bias_HM = look_up_bias_of_row(bias, r, distances)
        yield q_RHK[r], np.stack(seen_k, axis=1), np.stack(seen_v, axis=1), scale, bias_HM


oracle, error_bound = make_oracle_and_error_bound(attend_row_arguments)


def make_paper_inputs(stored: str = "float32", *, seed: int = 0) -> tuple[tuple, str]:
    """GPT-2: 8 sentences of 4 beams, prompts of 256 tokens, and 64 generated positions."""
    arguments = make_arguments(8, 4, 256, 64, G=12, K=64, U=64, seed=seed)
    return cast_caches_of_paper_inputs(
        stored, arguments, "8 sentences of 4 beams, 256 + 64 positions of 12 heads of 64 numbers"
    )
