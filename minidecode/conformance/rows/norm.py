"""Residual, bias and layer normalisation: inputs that find mistakes, what is right, and how near an answer must be."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from ...ops import Norm
from ..bounds import EPS
from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, WIDE, WIDTH


def make_arguments(
    x_RD: np.ndarray, y_RD: np.ndarray | None, bias_D: np.ndarray | None, eps: float, seed: int = 0, rms: bool = False
) -> tuple:
    """(x_RD, y_RD, bias_D, norm) with gains and biases that differ from column to column; rms: with an RMS norm."""
    rng = np.random.default_rng(seed)
    D = x_RD.shape[1]
    gain_D, shift_D = (1 + 0.2 * rng.standard_normal(D)), 0.2 * rng.standard_normal(D)
    norm = Norm(gain_D.astype(np.float32), None if rms else shift_D.astype(np.float32), eps)
    x_RD, y_RD, bias_D = (None if a is None else a.astype(np.float32) for a in (x_RD, y_RD, bias_D))
    return x_RD, y_RD, bias_D, norm


@st.composite
def draw_inputs(draw):
    """A few plain numbers, an outlier among them; every width up to 40, so that most are no multiple of a warp."""
    R, D = draw(st.integers(1, 3)), draw(st.integers(1, 40))
    number = st.sampled_from([0.0, 1.0, -1.0, 0.25, -3.0, 1000.0])

    def draw_numbers(*shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        return np.array(draw(st.lists(number, min_size=count, max_size=count))).reshape(shape)

    x_RD, eps, rms = draw_numbers(R, D), draw(st.sampled_from([1e-5, 1e-3])), draw(st.booleans())
    if draw(st.integers(0, 3)) == 3:  # the norm alone
        return make_arguments(x_RD, None, None, eps, rms=rms)
    return make_arguments(x_RD, draw_numbers(R, D), draw_numbers(D) if draw(st.booleans()) else None, eps, rms=rms)


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = []
    for D in (1, 2, 31, 32, 33, 64, 100, 257, 768, 1023, 1025, 4100):  # past warps, blocks and rooms
        x_RD, y_RD, bias_D = rng.standard_normal((7, D)), rng.standard_normal((7, D)), rng.standard_normal(D)
        x_RD[0, rng.integers(D)] = 1000.0  # an outlier
        x_RD[1], y_RD[1] = 0.1, 0.2  # equal values, whose sums round: only the biases are left
        x_RD[2] += 300.0  # far from zero, so that E[x^2] - mean^2 loses the spread
        x_RD[3], y_RD[3] = x_RD[3] * 1e-3, y_RD[3] * 1e-3  # so small that the epsilon counts
        x_RD[4] *= 1e12
        x_RD[5], y_RD[5] = x_RD[5] * 1e-25, y_RD[5] * 1e-25  # squares that are 0 in float32
        cases.append(make_arguments(x_RD, y_RD, None if D % 2 else bias_D, 1e-5, seed=D))
        if D in (33, 1025, 4100):
            cases.append(make_arguments(x_RD, None, None, 1e-5, seed=D))
        if D in (1, 32, 100, 1025, 4100):
            cases.append(make_arguments(x_RD, y_RD, bias_D if D == 32 else None, 1e-5, seed=D, rms=True))
            cases.append(make_arguments(x_RD, None, None, 1e-5, seed=D, rms=True))
    for R in (1, 31, 33, 150):  # the last are more rows than a block has threads
        cases.append(make_arguments(*rng.standard_normal((2, R, 6)), None, 1e-5))
    return cases


def layer_norm_oracle(x_RD, norm):
    """Layer norm row by row, with sums that round once."""
    if norm.bias_D is None:
        return np.array([rms_norm_oracle(row, norm) for row in np.asarray(x_RD, np.float64)])
    rows = []
    for row in np.asarray(x_RD, np.float64):
        mean = math.fsum(row) / len(row)
        variance = math.fsum((v - mean) ** 2 for v in row) / len(row)
        scaled = (row - mean) / math.sqrt(variance + norm.eps)
        rows.append(scaled * norm.gain_D.astype(np.float64) + norm.bias_D.astype(np.float64))
    return np.array(rows)


def rms_norm_oracle(row, norm):
    return row / math.sqrt(math.fsum(v * v for v in row) / len(row) + norm.eps) * norm.gain_D.astype(np.float64)


def large_cases() -> list[tuple]:
    """Many rows, a wide one, and widths at the edges of blocks."""
    rng = np.random.default_rng(1)
    shapes = [*((2, D) for D in BOUNDARIES), (ROWS, WIDTH), (1, WIDE), (MANY_ROWS, WIDTH)]
    cases = [make_arguments(*rng.standard_normal((2, *shape)), None, 1e-5) for shape in shapes]
    return [*cases, *(make_arguments(*rng.standard_normal((2, *shape)), None, 1e-5, rms=True) for shape in shapes[-3:])]


def oracle(x_RD, y_RD, bias_D, norm):
    """Everything in float64: the sum too, which a float32 implementation rounds before it normalises."""
    summed_RD = x_RD.astype(np.float64) + (0 if y_RD is None else y_RD) + (0 if bias_D is None else bias_D)
    return summed_RD, layer_norm_oracle(summed_RD, norm)


def layer_norm_error_bound(x_RD, norm):
    """A mean summed by one thread is off by sqrt(D) EPS max|x|, a random walk; dividing by the spread enlarges it.

    A sum in a tree is off by log2(D) roundings, which is more where D is small.
    """
    x_RD = x_RD.astype(np.float64)
    spread_R1, normalised_RD = _spread_and_normalised(x_RD, norm)
    if norm.bias_D is None:  # squares have one sign: their sum is off by as many roundings of itself, its root by half
        return (3 + estimate_roundings_of_a_sum(x_RD.shape[1]) / 2) * EPS * np.abs(norm.gain_D) * normalised_RD
    reach_R1 = np.abs(x_RD).max(axis=1, keepdims=True)
    relative_RD = reach_R1 / spread_R1 * (1 + normalised_RD) + 2 * normalised_RD
    roundings = 2 + estimate_roundings_of_a_sum(x_RD.shape[1])
    return roundings * EPS * (np.abs(norm.gain_D) * relative_RD + np.abs(norm.bias_D))


def estimate_roundings_of_a_sum(D):
    return max(math.log2(D), math.sqrt(D))


def error_bound(x_RD, y_RD, bias_D, norm):
    """Two roundings of the sum, and what they do to its norm; none where nothing is added."""
    if y_RD is None:
        return np.zeros_like(x_RD), layer_norm_error_bound(x_RD, norm)
    bias_D = np.zeros(x_RD.shape[1]) if bias_D is None else bias_D
    summed_RD = x_RD.astype(np.float64) + y_RD + bias_D
    off_RD = 2 * EPS * (np.abs(x_RD) + np.abs(y_RD) + np.abs(bias_D)).astype(np.float64)
    return off_RD, error_bound_of_inexact_input(summed_RD, off_RD, norm)


def error_bound_of_inexact_input(x_RD, off_RD, norm):
    """The bound where x itself is off by off_RD: that error divided by the spread, on top of the norm's own bound."""
    spread_R1, normalised_RD = _spread_and_normalised(x_RD, norm)
    typical_R1 = np.sqrt((off_RD**2).mean(axis=1, keepdims=True))
    moved_RD = np.abs(norm.gain_D) * (off_RD + typical_R1 * (1 + normalised_RD)) / spread_R1
    return layer_norm_error_bound(x_RD, norm) + moved_RD


def _spread_and_normalised(x_RD, norm):
    """(standard deviation with the epsilon, |x - mean| in units of it); of an RMS norm the mean is not taken off."""
    if norm.bias_D is None:
        spread_R1 = np.sqrt((x_RD**2).mean(axis=1, keepdims=True) + norm.eps)
        return spread_R1, np.abs(x_RD) / spread_R1
    spread_R1 = np.sqrt(x_RD.var(axis=1, keepdims=True) + norm.eps)
    return spread_R1, np.abs(x_RD - x_RD.mean(axis=1, keepdims=True)) / spread_R1


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of GPT-2: 32 sentences of 4 beams."""
    rng = np.random.default_rng(seed)
    rows, width = 128, 768
    x_RD, y_RD, (bias_D, gain_D, shift_D) = (
        rng.standard_normal((n, width)).astype(np.float32) for n in (rows, rows, 3)
    )
    return (x_RD, y_RD, bias_D, Norm(gain_D, shift_D, 1e-5)), f"{rows} rows of {width} numbers"
