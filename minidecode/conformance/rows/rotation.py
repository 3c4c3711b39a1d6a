"""Rotation of queries and keys: inputs that find mistakes, what is right, and how near an answer must be."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from ...ops import Heads
from ..bounds import EPS, TINY
from ..sizes import MANY_ROWS, ROWS


def make_arguments(R: int, heads: Heads, N: int, bias: bool, seed: int) -> tuple:
    """(qkv_RX, bias_X, heads, pos_R, turns_NK): rows at drawn positions, the table's last one among them."""
    rng = np.random.default_rng(seed)
    X, half = (heads.H + heads.G) * heads.K + heads.G * heads.U, heads.K // 2
    qkv_RX, bias_X = rng.standard_normal((R, X)).astype(np.float32), rng.standard_normal(X).astype(np.float32)
    angle_NX = np.arange(N)[:, None] * 10.0 ** (-2 * np.arange(half) / heads.K)
    turns_NK = np.concatenate([np.cos(angle_NX), np.sin(angle_NX)], axis=1).astype(np.float32)
    pos_R = rng.integers(N, size=R)
    pos_R[0] = N - 1
    return qkv_RX, bias_X if bias else None, heads, pos_R, turns_NK


@st.composite
def draw_inputs(draw):
    """Few heads, whose widths divide nothing."""
    per_group, G, half, U = (draw(st.integers(1, most)) for most in (3, 3, 9, 5))
    heads = Heads(per_group * G, G, 2 * half, U, 1.0)
    R, N, seed = draw(st.integers(1, 4)), draw(st.integers(2, 6)), draw(st.integers(0, 999))
    return make_arguments(R, heads, N, draw(st.booleans()), seed)


def planted_cases() -> list[tuple]:
    """Grouped heads, values of another width than keys, more columns than a block has threads."""
    few = (150, Heads(2, 2, 2, 2, 1.0), 3)
    shapes = [few, (3, Heads(2, 1, 6, 4, 1.0), 9), (1, Heads(1, 1, 2, 1, 1.0), 2), (33, Heads(9, 3, 64, 64, 1.0), 700),
              (5, Heads(4, 4, 34, 3, 1.0), 40), (2, Heads(6, 2, 10, 33, 1.0), 7),]  # fmt: skip
    cases = [make_arguments(R, heads, N, bias, k) for k, (R, heads, N) in enumerate(shapes) for bias in (False, True)]
    qkv_RX, bias_X, *rest = make_arguments(4, Heads(4, 2, 8, 8, 1.0), 5, True, 77)
    qkv_RX[1] *= 1e3
    qkv_RX[2, :7] = np.nan  # a mistake that must not be hidden, nor spread
    return [*cases, (qkv_RX, bias_X, *rest)]


def large_cases() -> list[tuple]:
    """Many rows, wide heads, positions beyond sixteen bits, and heads wider than a block has threads."""
    one = Heads(1, 1, 2, 1, 1.0)
    return [make_arguments(2, Heads(32, 8, 128, 128, 1.0), 70_000, True, 1), make_arguments(ROWS, one, 9, False, 2),
            make_arguments(MANY_ROWS, one, 9, True, 3),
            make_arguments(2, Heads(2, 1, 1026, 2, 1.0), 9, True, 4)]  # fmt: skip


def oracle(qkv_RX, bias_X, heads, pos_R, turns_NK):
    """Pair by pair in float64: (a, b) becomes (a cos - b sin, b cos + a sin)."""
    y_RX = qkv_RX.astype(np.float64) + (0 if bias_X is None else bias_X)
    half = heads.K // 2
    for r, position in enumerate(pos_R):
        cos, sin = turns_NK[position, :half].astype(np.float64), turns_NK[position, half:].astype(np.float64)
        for head in range(heads.H + heads.G):
            a, b = (slice(head * heads.K + i, head * heads.K + i + half) for i in (0, half))
            y_RX[r, a], y_RX[r, b] = (y_RX[r, a] * cos - y_RX[r, b] * sin, y_RX[r, b] * cos + y_RX[r, a] * sin)
    return y_RX


def error_bound(qkv_RX, bias_X, heads, pos_R, turns_NK):
    """The sum with the bias rounds, both products and their sum; of values the first alone."""
    biased_RX = np.abs(qkv_RX.astype(np.float64) + (0 if bias_X is None else bias_X))
    turned, half = (heads.H + heads.G) * heads.K, heads.K // 2
    off_RX = (bias_X is not None) * EPS * biased_RX
    x_RHK = biased_RX[:, :turned].reshape(len(qkv_RX), -1, heads.K)
    cos_RX, sin_RX = np.split(np.abs(turns_NK[pos_R].astype(np.float64)), 2, axis=1)
    a_RHX, b_RHX = x_RHK[..., :half], x_RHK[..., half:]
    cos_R1X, sin_R1X = cos_RX[:, None], sin_RX[:, None]
    sizes = np.concatenate([a_RHX * cos_R1X + b_RHX * sin_R1X, b_RHX * cos_R1X + a_RHX * sin_R1X], axis=-1)
    off_RX[:, :turned] = (3 * EPS * sizes).reshape(len(qkv_RX), turned)
    return off_RX + TINY


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of SmolLM2-135M: 4 beams."""
    return make_arguments(
        4, Heads(9, 3, 64, 64, 1 / math.sqrt(64)), 1024, False, seed
    ), "4 rows, 9 + 3 heads of 64 numbers"
