"""Embedding with layer normalisation: inputs that find mistakes, what is right, and how near an answer must be."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ...ops import Norm
from ..bounds import EPS
from ..sizes import BOUNDARIES, MANY_ROWS, POSITIONS, ROWS, WIDE, WIDTH
from .norm import error_bound_of_inexact_input, layer_norm_oracle


def make_arguments(
    ids, pos, wte_VD: np.ndarray, wpe_ND: np.ndarray | None, scale: float, eps: float, seed: int = 0, rms: bool = False
) -> tuple:
    """The op's arguments, with gains and biases that differ from column to column; rms: with an RMS norm."""
    rng = np.random.default_rng(seed)
    D = wte_VD.shape[1]
    gain_D, shift_D = (1 + 0.2 * rng.standard_normal(D)), 0.2 * rng.standard_normal(D)
    norm = Norm(gain_D.astype(np.float32), None if rms else shift_D.astype(np.float32), eps)
    tables = (None if table is None else table.astype(np.float32) for table in (wte_VD, wpe_ND))
    return np.asarray(ids), np.asarray(pos), *tables, scale, norm


@st.composite
def draw_inputs(draw):
    """A few plain numbers, an outlier among them; every width up to 40, so that most are no multiple of a warp."""
    R, D, V, N = (draw(st.integers(1, most)) for most in (3, 40, 4, 3))
    number = st.sampled_from([0.0, 1.0, -1.0, 0.25, -3.0, 1000.0])

    def draw_numbers(*shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        return np.array(draw(st.lists(number, min_size=count, max_size=count))).reshape(shape)

    ids, pos = ([draw(st.integers(0, length - 1)) for _ in range(R)] for length in (V, N))
    scale = draw(st.sampled_from([1.0, 4.0]))
    wpe_ND = draw_numbers(N, D) if draw(st.integers(0, 3)) else None
    eps, rms = draw(st.sampled_from([1e-5, 1e-3])), draw(st.integers(0, 3)) == 3
    return make_arguments(ids, pos, draw_numbers(V, D), wpe_ND, scale, eps, rms=rms)


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    ids, pos = [5, 0, 3, 4, 1, 5, 6, 7], [0, 3, 1, 0, 4, 4, 0, 3]  # first and last rows of both tables; one token twice
    cases = []
    for D in (1, 2, 31, 32, 33, 64, 100, 257, 768, 1023, 1025, 4100):  # past warps, blocks, registers and rooms
        wte_VD, wpe_ND = rng.standard_normal((8, D)), rng.standard_normal((5, D))
        wte_VD[2], wpe_ND[2] = np.nan, np.nan  # no token asks for these
        wte_VD[0, rng.integers(D)] = 1000.0  # an outlier
        wte_VD[3], wpe_ND[1] = 0.1, 0.2  # equal values, whose sums round: only the biases are left
        wte_VD[4] += 300.0  # far from zero, so that E[x^2] - mean^2 loses the spread
        wte_VD[1], wpe_ND[4] = wte_VD[1] * 1e-3, wpe_ND[4] * 1e-3  # so small that the epsilon counts
        wte_VD[6] *= 1e12
        wte_VD[7], wpe_ND[3] = wte_VD[7] * 1e-25, wpe_ND[3] * 1e-25  # squares that are 0 in float32
        cases.append(make_arguments(ids, pos, wte_VD, wpe_ND, D**0.5 if D % 2 else 1.0, 1e-5, seed=D))
        if D in (1, 33, 100, 1025, 4100):  # RMS norms, and no positions, whose rows may then be any
            cases.append(make_arguments(ids, pos, wte_VD, wpe_ND, 1.0, 1e-5, seed=D, rms=True))
            cases.append(make_arguments(ids, np.array(pos) + 7, wte_VD, None, D**0.5, 1e-5, seed=D, rms=D != 33))
    for R in (1, 31, 33, 150):  # more rows than a block has warps, and than it has threads
        tables = rng.standard_normal((2, 40, 6))
        cases.append(make_arguments(rng.integers(40, size=R), rng.integers(40, size=R), *tables, 1.0, 1e-5))
    return cases


def large_cases() -> list[tuple]:
    """Many rows, tables longer than sixteen bits count, and widths at the edges of blocks."""
    rng, cases = np.random.default_rng(1), []
    for D in (*BOUNDARIES, WIDE):
        cases.append(make_arguments([1, 0], [0, 1], *rng.standard_normal((2, 2, D)), 1.0, 1e-5))
    for R, D in [(ROWS, WIDTH), (MANY_ROWS, 2)]:
        cases.append(make_arguments(*rng.integers(40, size=(2, R)), *rng.standard_normal((2, 40, D)), 1.0, 1e-5))
    wte_VD, wpe_ND = (rng.standard_normal((n, WIDTH)) for n in (WIDE, POSITIONS))
    return [*cases, make_arguments([WIDE - 1, 5], [7, POSITIONS - 1], wte_VD, wpe_ND, 1.0, 1e-5)]


def oracle(ids_R, pos_R, wte_VD, wpe_ND, scale, norm):
    """Row by row in float64: x too, which a float32 implementation rounds before it normalises."""
    x_RD = np.array([scale * wte_VD[i].astype(np.float64) for i in ids_R])
    if wpe_ND is not None:
        x_RD += np.array([wpe_ND[p] for p in pos_R])
    return x_RD, layer_norm_oracle(x_RD, norm)


def error_bound(ids_R, pos_R, wte_VD, wpe_ND, scale, norm):
    """The scale is rounded, and the product, and the sum; and what that does to the norm."""
    scaled_RD = scale * wte_VD[ids_R].astype(np.float64)
    x_RD = scaled_RD if wpe_ND is None else scaled_RD + wpe_ND[pos_R]
    off_RD = EPS * (2 * np.abs(scaled_RD) + np.abs(x_RD))
    return off_RD, error_bound_of_inexact_input(x_RD, off_RD, norm)


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of GPT-2: 32 sentences of 4 beams."""
    rng = np.random.default_rng(seed)
    rows, width = 128, 768
    wte_VD, wpe_ND = (rng.standard_normal((n, width), dtype=np.float32) for n in (50257, 1024))
    gain_D, shift_D = rng.standard_normal((2, width), dtype=np.float32)
    ids_R, pos_R = rng.integers(50257, size=rows), rng.integers(1024, size=rows)
    says = f"{rows} rows of {width} numbers, from tables of 50257 and 1024 rows"
    return (ids_R, pos_R, wte_VD, wpe_ND, 1.0, Norm(gain_D, shift_D, 1e-5)), says
