"""Keys and values of a source for all decoder layers: inputs that find mistakes, what is right, how near."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from ...ops import Heads
from ..attention import draw_array
from ..bounds import EPS
from ..sizes import BOUNDARIES, LARGE_HEADS, MANY_ROWS, POSITIONS, ROWS, WIDTH
from . import linear as product
from .linear import LAYOUTS, STORED

round_arguments_to_float16 = product.round_arguments_to_float16  # judges functions that round x to float16


def make_arguments(h_RD, matrix, bias_X, heads: Heads, stored: str, layout: str) -> tuple:
    """(h_RD, weight, heads)"""
    h_RD, weight = product.make_arguments(h_RD, matrix, stored, layout)
    return h_RD, replace(weight, bias=None if bias_X is None else bias_X.astype(np.float32)), heads


def make_random_arguments(
    seed: int, R: int, D: int, S: int, heads: Heads, stored="float32", layout="oi", bias=True
) -> tuple:
    rng = np.random.default_rng(seed)
    X = S * heads.G * (heads.K + heads.U)
    h_RD, matrix, bias_X = rng.standard_normal((R, D)), rng.standard_normal((D, X)), 3 * rng.standard_normal(X)
    matrix *= 10.0 ** rng.integers(-1, 2, X)  # each output has a scale of its own
    return make_arguments(h_RD, matrix, bias_X if bias else None, heads, stored, layout)


@st.composite
def draw_inputs(draw):
    """Keys and values of different widths; more query heads than others, which must not matter."""
    R, D, S, G = (draw(st.integers(1, most)) for most in (4, 12, 3, 2))
    heads = Heads(G * draw(st.integers(0, 2)), G, draw(st.integers(1, 3)), draw(st.integers(1, 3)), 1.0)
    X = S * G * (heads.K + heads.U)
    bias_X = draw_array(draw, X) if draw(st.booleans()) else None
    stored, layout = draw(st.sampled_from(STORED)), draw(st.sampled_from(LAYOUTS))
    return make_arguments(draw_array(draw, R, D), draw_array(draw, D, X), bias_X, heads, stored, layout)


def planted_cases() -> list[tuple]:
    """All ways to store a weight; rows and widths beside the multiples of blocks."""
    ways = itertools.product(STORED, LAYOUTS)
    cases = [make_random_arguments(n, 3, 16, 2, Heads(4, 2, 2, 3, 1.0), *way) for n, way in enumerate(ways)]
    return [
        *cases,
        make_random_arguments(20, 1, 9, 1, Heads(1, 1, 1, 1, 1.0)),
        make_random_arguments(21, 5, 4, 4, Heads(2, 2, 2, 3, 1.0), bias=False),
        make_random_arguments(22, 2, 5, 3, Heads(2, 1, 5, 4, 1.0)),
        make_random_arguments(23, 1, 3, 2, Heads(1, 1, 64, 66, 1.0), layout="io"),  # past the blocks of kernels
    ]


def large_cases() -> list[tuple]:
    """Many rows, long sums, many heads, wide ones, and widths at the edges of blocks."""
    one = Heads(1, 1, 1, 1, 1.0)
    cases = [make_random_arguments(n, 2, n, 1, one, STORED[n % len(STORED)], LAYOUTS[n % 2]) for n in BOUNDARIES]
    cases += [make_random_arguments(32, 2, 1, 2, Heads(G, G, K, K, 1.0)) for G, K in LARGE_HEADS]
    cases += [make_random_arguments(30, ROWS, WIDTH, 1, one), make_random_arguments(31, 3, POSITIONS, 1, one)]
    wide = Heads(33, 33, 130, 130, 1.0)  # of 8 layers: more columns than sixteen bits count
    return [*cases, make_random_arguments(33, 2, 1, 8, wide), make_random_arguments(34, MANY_ROWS, 1, 1, one)]


def oracle(h_RD, weight, heads):
    """The product number by number, column by column to its place."""
    y_RX = product.oracle(h_RD, weight)
    y_RX = y_RX if weight.bias is None else y_RX + weight.bias.astype(np.float64)
    return _cut_keys_and_values(y_RX, heads)


def error_bound(h_RD, weight, heads):
    """The product's, and a rounding of the sum with the bias."""
    exact = oracle(h_RD, weight, heads)
    return tuple(
        off + EPS * np.abs(y)
        for off, y in zip(_cut_keys_and_values(product.error_bound(h_RD, weight), heads), exact, strict=True)
    )


def _cut_keys_and_values(y_RX, heads) -> tuple[np.ndarray, np.ndarray]:
    width = heads.G * (heads.K + heads.U)
    stack = len(y_RX[0]) // width, len(y_RX), heads.G
    k_SRGK, v_SRGU = np.empty((*stack, heads.K)), np.empty((*stack, heads.U))
    for s, r, g in np.ndindex(stack):
        keys = s * width + g * heads.K
        values = s * width + heads.G * heads.K + g * heads.U
        k_SRGK[s, r, g] = y_RX[r, keys : keys + heads.K]
        v_SRGU[s, r, g] = y_RX[r, values : values + heads.U]
    return k_SRGK, v_SRGU


def make_paper_inputs(stored: str = "float32", *, seed: int = 0) -> tuple[tuple, str]:
    """BART-base: 6 decoder layers, one source of 256 tokens."""
    rows, heads = 256, Heads(12, 12, 64, 64, 0.125)
    description = f"{rows} rows of 768, keys and values of 6 layers, {stored} weights"
    return make_random_arguments(seed, rows, 768, 6, heads, stored), description
