"""Attention on hidden states: inputs that find mistakes, what is right, and how near an answer must be."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..attention import STORED as STORED
from ..attention import attend_hidden_row, attend_hidden_row_error_bound
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH


def make_arrays_of_hidden_states(rng, B, W, N, H, G, K, U, D, key_bias=1.0, value_bias=1.0, h_dtype=np.float32):
    """(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU): scores of a few units; padding would show if read."""

    def normal_array(*shape, size=1.0):
        return (size * rng.standard_normal(shape)).astype(np.float32)

    h_BND, begin_B = normal_array(B, N, D).astype(h_dtype), rng.integers(0, N, B)
    begin_B[rng.integers(B)] = 0
    for b in range(B):
        h_BND[b, : begin_B[b]] = 1e4
    return (
        normal_array(B * W, H, K, size=2), h_BND, begin_B, normal_array(G, K, D, size=D**-0.5),
        normal_array(G, K, size=key_bias), normal_array(G, U, D, size=D**-0.5), normal_array(G, U, size=value_bias),
    )  # fmt: skip


def make_arguments(seed: int = 0, **sizes) -> tuple:
    """Random hidden inputs with `scale` 1/sqrt(K), as layers have it."""
    arguments = make_arrays_of_hidden_states(np.random.default_rng(seed), **sizes)
    return *arguments, sizes["K"] ** -0.5


WIDTHS = st.sampled_from([1, 2, 3, 4, 5, 33])


def draw_sizes():
    """Batches, beams, heads in groups; small widths, and one past a warp's."""
    return st.builds(
        lambda per_group, G, **others: dict(H=G * per_group, G=G, **others), G=st.integers(1, 3),
        per_group=st.integers(1, 2), B=st.integers(1, 2), W=st.integers(1, 3), N=WIDTHS, K=WIDTHS, U=WIDTHS, D=WIDTHS,
        key_bias=st.sampled_from([0.0, 1.0, 10.0]), value_bias=st.sampled_from([0.0, 1.0, 10.0]),
        h_dtype=st.sampled_from([np.float32, np.float16]),
    )  # fmt: skip


def draw_inputs():
    return st.builds(lambda seed, given: make_arguments(seed, **given), st.integers(0, 99), draw_sizes())


def planted_sizes() -> list[dict]:
    small = dict(B=2, W=2, N=4, H=2, G=2, K=3, U=2, D=5)
    cases = [
        small,
        small | dict(H=6, G=3),
        small | dict(H=4, G=1, K=2, U=5, D=3),  # multi-query, and heads wider together than the model
        small | dict(B=3, W=1, N=7, D=8),
        small | dict(N=1),
        small | dict(B=1, W=5, N=6, key_bias=20.0),
        small | dict(key_bias=20.0, value_bias=20.0, H=4),
        small | dict(B=1, W=1, N=1, H=1, G=1, K=1, U=1, D=1),
    ]
    widths = [(1, 33, 31, 33, 64), (3, 31, 33, 1, 100), (4, 32, 1, 31, 33), (5, 9, 8, 8, 31), (2, 70, 4, 3, 1)]
    for W, N, K, U, D in widths:
        cases.append(dict(B=1, W=W, N=N, H=2, G=2, K=K, U=U, D=D))
    cases += [
        dict(B=1, W=4, N=12, H=3, G=1, K=16, U=16, D=130, h_dtype=np.float16),
        dict(B=1, W=1, N=3, H=1, G=1, K=2, U=2, D=1024),
        dict(B=1, W=2, N=2, H=2, G=1, K=2, U=2, D=1025),  # wider than the room of the fused kernel
    ]
    return cases


def planted_cases() -> list[tuple]:
    cases = [make_arguments(seed, **sizes) for seed, sizes in enumerate(planted_sizes())]
    heavy = make_arguments(99, B=2, W=2, N=9, H=2, G=2, K=8, U=8, D=16)
    heavy[1][:, :, 3] += 30  # a column that is large everywhere, as trained models have them
    return [*cases, heavy]


def large_cases() -> list[tuple]:
    """Many sentences, a long one, many heads, wide ones, and lengths at the edges of blocks."""
    one = dict(W=1, H=1, G=1, K=2, U=2, D=WIDTH)
    cases = [make_arguments(n, B=1, N=n, **one) for n in (*BOUNDARIES, POSITIONS)]
    cases += [make_arguments(1, B=B, N=2, **one) for B in (ROWS, MANY_ROWS)]
    return [*cases, *(make_arguments(1, B=1, N=2, W=1, H=G, G=G, K=K, U=K, D=WIDTH) for G, K in LARGE_HEADS)]


def iterate_rows(q_RHK, h_BND, begin_B):
    """(r, q_HK, h_ND) for each row: its queries, and the hidden states of its sentence that are not padding."""
    W = len(q_RHK) // len(h_BND)
    for r, q_HK in enumerate(q_RHK):
        yield r, q_HK, h_BND[r // W, begin_B[r // W] :]


def oracle(q_RHK, h_BND, begin_B, *rest):
    *weights, scale = rest
    return np.stack([attend_hidden_row(q, h, weights, scale) for _, q, h in iterate_rows(q_RHK, h_BND, begin_B)])


def error_bound(q_RHK, h_BND, begin_B, *rest):
    *weights, scale = rest
    return np.stack(
        [attend_hidden_row_error_bound(q, h, weights, scale) for _, q, h in iterate_rows(q_RHK, h_BND, begin_B)]
    )


WHEN_REPEATED = {"sentences": 32}  # that share the layer's weights


def make_paper_inputs(stored: str = "float32", *, seed: int = 0, sentences: int = 1) -> tuple[tuple, str]:
    """Section 4.1: 1,024 positions, 16 heads, width 1,024, 4 beams; of 32 sentences one, which a CPU can wait for."""
    sizes = dict(B=1, W=4, N=1024, H=16, G=16, K=64, U=64, D=1024)
    q_RHK, h_BND, begin_B, *weights = make_arguments(seed, **sizes, h_dtype=np.dtype(stored))
    of_sentences = (np.repeat(array, sentences, axis=0) for array in (q_RHK, h_BND, begin_B))
    whose = "1 sentence" if sentences == 1 else f"{sentences} sentences"
    description = f"{whose} of 1,024 positions, 4 beams, 16 heads, width 1,024, states in {stored}"
    return (*of_sentences, *weights), description
