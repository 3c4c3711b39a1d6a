"""Bias and cut into heads: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ...ops import Heads
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, ROWS


def make_distinct_product(R: int, heads: Heads, bias: bool) -> tuple:
    """(qkv_RX, bias_X, heads); no two numbers are equal, so that each says where it comes from, and none rounds."""
    X = heads.H * heads.K + heads.G * (heads.K + heads.U)
    qkv_RX = np.arange(1, 1 + R * X, dtype=np.float32).reshape(R, X)
    return qkv_RX, (1 + np.arange(X, dtype=np.float32)) / 1024 if bias else None, heads


@st.composite
def draw_heads(draw):
    """Groups of one query head and of several; keys and values of different widths."""
    G, per_group, size = draw(st.integers(1, 3)), draw(st.integers(1, 3)), st.integers(1, 4)
    return Heads(G * per_group, G, draw(size), draw(size), 1.0)


@st.composite
def draw_inputs(draw):
    return make_distinct_product(draw(st.integers(1, 4)), draw(draw_heads()), draw(st.booleans()))


def planted_cases() -> list[tuple]:
    cases = [
        make_distinct_product(3, Heads(2, 2, 4, 4, 1.0), bias=True),
        make_distinct_product(1, Heads(6, 2, 5, 3, 1.0), bias=True),
        make_distinct_product(2, Heads(4, 1, 3, 7, 1.0), bias=False),
        make_distinct_product(
            5, Heads(3, 0, 4, 4, 1.0), bias=True
        ),  # queries alone, as of a target that looks at a source
        make_distinct_product(5, Heads(0, 3, 4, 2, 1.0), bias=True),  # keys and values alone, as of a source
        make_distinct_product(1, Heads(1, 1, 1, 1, 1.0), bias=True),
        make_distinct_product(33, Heads(2, 1, 31, 33, 1.0), bias=True),
        make_distinct_product(1, Heads(12, 12, 64, 64, 1.0), bias=True),  # GPT-2's heads: past the blocks of kernels
    ]
    rng = np.random.default_rng(0)
    qkv_RX, bias_X, heads = make_distinct_product(4, Heads(2, 2, 33, 31, 1.0), bias=True)
    qkv_RX, bias_X = rng.standard_normal(qkv_RX.shape), rng.standard_normal(bias_X.shape)
    qkv_RX[1, 5] = 1e30  # an outlier, beside which its neighbours must stay what they are
    return [*cases, (qkv_RX.astype(np.float32), bias_X.astype(np.float32), heads)]


def large_cases() -> list[tuple]:
    """Many rows, heads at the edges of blocks, many heads, and more columns than sixteen bits count."""
    one = Heads(1, 1, 1, 1, 1.0)
    cases = [make_distinct_product(2, Heads(1, 1, n, 1, 1.0), bias=True) for n in BOUNDARIES]
    cases += [make_distinct_product(2, Heads(G, G, K, K, 1.0), bias=True) for G, K in (*LARGE_HEADS, (33, 700))]
    return [*cases, make_distinct_product(ROWS, one, bias=True), make_distinct_product(MANY_ROWS, one, bias=False)]


def oracle(qkv_RX, bias_X, heads):
    """Number by number, by its column."""
    R, H, G, K, U = len(qkv_RX), heads.H, heads.G, heads.K, heads.U
    parts = np.empty((R, H, K), np.float32), np.empty((R, G, K), np.float32), np.empty((R, G, U), np.float32)
    first = 0
    for part in parts:
        for r, head, x in np.ndindex(part.shape):
            column = first + head * part.shape[2] + x
            part[r, head, x] = qkv_RX[r, column] + (np.float32(0) if bias_X is None else bias_X[column])
        first += part.shape[1] * part.shape[2]
    return parts


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """BART-base's encoder over 8 sources of 512 tokens."""
    rng = np.random.default_rng(seed)
    R, heads = 8 * 512, Heads(12, 12, 64, 64, 0.125)
    qkv_RX, bias_X = (rng.standard_normal(shape).astype(np.float32) for shape in ((R, 3 * 768), 3 * 768))
    return (qkv_RX, bias_X, heads), f"{R} rows, 12 heads of 64 numbers"
