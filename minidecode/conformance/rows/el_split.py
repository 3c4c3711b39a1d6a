"""Hidden states of a prompt and keys and values of what followed: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..attention import attend_hidden_row, attend_hidden_row_error_bound, cast_caches_to_float16
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH
from .el import draw_sizes as prompt_sizes
from .el import iterate_rows, make_arrays_of_hidden_states, planted_sizes


def make_arguments(seed: int = 0, T: int = 3, empty: bool = False, whole: bool = False, **sizes) -> tuple:
    """What `attend_el` gets for the prompt, then each row's own part, of which some is not yet or no longer seen.

    Keys and values are of the same type as the hidden states.

    empty: the last sentence sees nothing of its prompt, as under a window. whole: all rows see all of their own part.
    """
    rng = np.random.default_rng(seed)
    q_RHK, h_BND, begin_B, *weights = make_arrays_of_hidden_states(rng, **sizes)
    R, G, K, U = len(q_RHK), sizes["G"], sizes["K"], sizes["U"]
    k_RGTK, v_RGTU = (rng.standard_normal((R, G, T, X)).astype(np.float32) for X in (K, U))
    begin_R = rng.integers(0, T, R)
    end_R = rng.integers(begin_R + 1, T + 1)
    if whole:
        begin_R[:], end_R[:] = 0, T
    for r in range(R):
        for unseen in (slice(begin_R[r]), slice(end_R[r], None)):
            k_RGTK[r, :, unseen], v_RGTU[r, :, unseen] = 1e4, 1e4
    if empty:
        h_BND[-1], begin_B[-1] = 1e4, sizes["N"]
    arguments = q_RHK, h_BND, begin_B, *weights, k_RGTK, v_RGTU, begin_R, end_R, K**-0.5
    return cast_caches_to_float16(arguments) if h_BND.dtype == np.float16 else arguments


def draw_inputs():
    return st.builds(
        lambda seed, T, empty, given: make_arguments(seed, T, empty, **given),
        st.integers(0, 99), st.integers(1, 4) | st.sampled_from([32, 33]), st.booleans(), prompt_sizes(),
    )  # fmt: skip


def planted_cases() -> list[tuple]:
    """The prompts of `el`, with key biases that move the softmax between the parts, but not wholly into one."""
    mild = [given | {"key_bias": min(given.get("key_bias", 1.0), 1.0)} for given in planted_sizes()]
    cases = [make_arguments(seed, 1 + seed % 4, **given) for seed, given in enumerate(mild)]
    cases.insert(7, make_arguments(90, 9, **mild[1] | dict(N=20, K=8, U=8, D=16, h_dtype=np.float16)))
    small = mild[1]
    cases += [make_arguments(50 + T, T, **small) for T in (31, 32, 33, 130)]
    cases += [make_arguments(60, 3, True, **small), make_arguments(61, 1, True, **small | dict(B=1))]
    cases += [make_arguments(70, 3, **small | dict(key_bias=20.0, value_bias=20.0))]
    return cases


def large_cases() -> list[tuple]:
    """Many sentences, long ones, many heads, wide ones, and lengths of either part at the edges of blocks."""
    one = dict(W=1, H=1, G=1, K=2, U=2, D=WIDTH)
    cases = [make_arguments(n, n, whole=True, B=1, N=2, **one) for n in (*BOUNDARIES, POSITIONS)]
    cases += [make_arguments(n, 2, B=1, N=n, **one) for n in (*BOUNDARIES, POSITIONS)]
    cases += [make_arguments(1, 1, B=B, N=1, **one) for B in (ROWS, MANY_ROWS)]
    return [*cases, *(make_arguments(1, 2, B=1, N=2, W=1, H=G, G=G, K=K, U=K, D=WIDTH) for G, K in LARGE_HEADS)]


def oracle(q_RHK, h_BND, begin_B, *rest):
    return _apply_to_each_row(attend_hidden_row, q_RHK, h_BND, begin_B, *rest)


def error_bound(q_RHK, h_BND, begin_B, *rest):
    return _apply_to_each_row(attend_hidden_row_error_bound, q_RHK, h_BND, begin_B, *rest)


def _apply_to_each_row(of_row, q_RHK, h_BND, begin_B, *rest):
    *weights, k_RGTK, v_RGTU, begin_R, end_R, scale = rest
    rows = []
    for r, q_HK, h_ND in iterate_rows(q_RHK, h_BND, begin_B):
        seen = slice(begin_R[r], end_R[r])
        rows.append(of_row(q_HK, h_ND, weights, scale, (k_RGTK[r][:, seen], v_RGTU[r][:, seen])))
    return np.stack(rows)


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """GPT-2 small on CNN/DailyMail (section 4.2.3), half way: a prompt of 512 tokens, 100 of the 200 new ones."""
    rng = np.random.default_rng(seed)
    prompt = make_arrays_of_hidden_states(rng, B=1, W=4, N=512, H=12, G=12, K=64, U=64, D=768)
    k_RGTK, v_RGTU = rng.standard_normal((2, 4, 12, 100, 64)).astype(np.float32)
    shape = "1 sentence of 512 positions, 4 beams with 100 more each, 12 heads, width 768"
    return (*prompt, k_RGTK, v_RGTU, np.zeros(4, np.int64), np.full(4, 100), 64**-0.5), shape
