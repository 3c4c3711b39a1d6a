"""Products of int8 weights and rounded rows: inputs that find mistakes, what is right, how near."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from ...device.low_precision import DYNAMIC, stored_weight
from ...ops import Weight
from ..attention import draw_array
from ..bounds import EPS
from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, SEVERAL_WIDE, WIDE, WIDTH
from . import activation as activation_row
from .activation import EQUATIONS

STORED = tuple(DYNAMIC)
NEAR_A_TIE = 2.0**-22  # of a number between two whole ones: which it becomes depends on two roundings before


def make_arguments(
    x_RX: np.ndarray, matrix: np.ndarray, stored: str, bias_X: np.ndarray | None = None, activation: str | None = None,
    add_to: np.ndarray | None = None,
) -> tuple:  # fmt: skip
    """(x_RX, weight, bias_X, activation, add_to), the matrix of (inputs, outputs) rounded as it is said."""
    bias_X, add_to = (None if a is None else a.astype(np.float32) for a in (bias_X, add_to))
    return x_RX.astype(np.float32), stored_weight(stored, Weight(matrix.astype(np.float32))), bias_X, activation, add_to


@st.composite
def draw_inputs(draw):
    """A few plain numbers; every width up to 40, so that most are no multiple of a word or a warp."""
    R, n_in, n_out = draw(st.integers(1, 8)), draw(st.integers(1, 40)), draw(st.integers(1, 5))
    activation = draw(st.sampled_from([None, "relu", *sorted(set(EQUATIONS) - {"relu"})]))
    bias_X = draw_array(draw, n_out) if draw(st.booleans()) else None
    add_to = draw_array(draw, R, n_out) if draw(st.booleans()) else None
    stored = draw(st.sampled_from(STORED))
    return make_arguments(draw_array(draw, R, n_in), draw_array(draw, n_in, n_out), stored, bias_X, activation, add_to)


def planted_cases() -> list[tuple]:
    """Ties, sums that 16 bits do not hold, rows of zeros and of what is not finite; all activations and endings."""
    sizes = [(3, 33, 5), (1, 1025, 2), (2, 31, 65), (31, 1, 2), (33, 64, 1), (65, 3, 3), (4, 64, 129), (1, 2, 1023),
             (13, 1024, 1), (34, 64, 8)]  # fmt: skip
    names, cases = [None, *sorted(EQUATIONS)], []
    for number, ((R, n_in, n_out), stored) in enumerate(itertools.product(sizes, STORED)):
        rng = np.random.default_rng(number)
        x_RX, matrix = rng.standard_normal((R, n_in)), rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)
        x_RX *= 10.0 ** rng.integers(-2, 2, (R, 1))  # each row has a scale of its own
        matrix *= 10.0 ** rng.integers(-2, 2, n_out)  # and each output
        matrix[rng.integers(n_in), 0] = 5.0  # an outlier among an output's weights
        if n_out > 2:
            matrix[:, n_out // 2] = 0  # an output of zeros: its scale is 0, and only the bias is left
        if R > 2:
            x_RX[1] = 0  # a row of zeros
            x_RX[-1, 0] = np.nan if number % 4 < 2 else -np.inf
        bias_X, add_to = rng.standard_normal(n_out), rng.standard_normal((R, n_out))
        ending = number % 4  # the first case adds to nothing: it is the one that `out` is tried on
        cases.append(
            make_arguments(
                x_RX, matrix, stored, None if ending == 2 else bias_X, names[number % len(names)],
                add_to if ending % 2 else None,
            )
        )  # fmt: skip
    rng = np.random.default_rng(0)
    x_RX, matrix, bias_X, add_to = (rng.standard_normal(shape) for shape in ((5, 40), (40, 7), 7, (5, 7)))
    cases += [
        *_planted_cases_of_extremes(),
        *(make_arguments(x_RX, matrix, "int8_dynamic", bias_X, n, add_to) for n in names),
    ]
    matrix, bias_X, add_to = (rng.standard_normal(shape) for shape in ((40, 66), 66, (5, 33)))  # pairs of gate and up
    ends = [(bias_X, None), (None, add_to), (None, None)]
    return [*cases, *(make_arguments(x_RX, matrix, s, b, "gated-silu", a) for s in STORED for b, a in ends)]


def _planted_cases_of_extremes() -> list[tuple]:
    """Numbers half-way between two whole ones; the largest products, all of one sign; numbers close to none."""
    cases = []
    for stored, bits in DYNAMIC.items():
        largest = 2 ** (bits - 1) - 1
        ties_RX = np.arange(-20, 20)[None] + 0.5 + np.zeros((3, 1))
        ties_RX[:, 0] = largest, -largest, 2 * largest
        ties_RX[2, 1:] *= 2
        cases.append(make_arguments(ties_RX, np.eye(40) * 127, stored))
        for sign, inputs in itertools.product((1, -1), (2, 8, 64, 3072)):
            x_RX, matrix = np.full((2, inputs), 1.0), np.full((inputs, 3), 1.0)
            x_RX[1] = -1
            cases.append(make_arguments(x_RX, sign * matrix, stored))
        cases.append(make_arguments(np.array([[1e-36, -1e-38], [1e-34, 3e-35]]), np.ones((2, 2)), stored))
    return cases


def large_cases() -> list[tuple]:
    """Many rows, long sums, as many outputs as a large vocabulary has, and widths at the edges of blocks."""
    rng, cases = np.random.default_rng(1), []
    sizes = [*((2, n, 2) for n in BOUNDARIES), (ROWS, WIDTH, 2), (*SEVERAL_WIDE, 2), (1, WIDTH, WIDE)]
    sizes += [(3, WIDTH, SEVERAL_WIDE[1]), (1, 66_000, 1), (MANY_ROWS, 1, 1)]
    for k, (R, n_in, n_out) in enumerate(sizes):
        x_RX, matrix = rng.standard_normal((R, n_in)), rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)
        cases.append(make_arguments(x_RX, matrix, STORED[k % len(STORED)], rng.standard_normal(n_out), "gelu"))
    return cases


def round_to_integers(x_RX, x_bits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, the scale of each row, where q may be off by one): the rounding of the contract, whose steps are float32."""
    largest, x_RX = np.float32(2 ** (x_bits - 1) - 1), np.asarray(x_RX, np.float32)
    most_R = np.abs(x_RX).max(axis=1)
    is_finite_R, counts_R = np.isfinite(most_R), most_R >= np.float32(1e-35)
    with np.errstate(all="ignore"):
        exact_RX = np.where((is_finite_R & counts_R)[:, None], x_RX.astype(float) * float(largest) / most_R[:, None], 0)
        q_RX = np.rint(np.where(is_finite_R[:, None], x_RX * np.where(counts_R, largest / most_R, 0)[:, None], 0))
    from_tie_RX = np.abs(np.abs(exact_RX) % 1 - 0.5)
    unsure_RX = (from_tie_RX > 0) & (from_tie_RX < NEAR_A_TIE * np.abs(exact_RX))
    scale_R = np.where(is_finite_R, most_R.astype(float) / float(largest), np.nan)
    return q_RX.astype(float), scale_R, unsure_RX


def oracle(x_RX, weight, bias_X=None, activation=None, add_to=None):
    """The product of integers, which float64 sums exactly, and the steps after it in float64, number by number."""
    y_RX = _multiply_with_error_bounds(x_RX, weight)[0]
    bias_X = np.zeros(y_RX.shape[1]) if bias_X is None else bias_X
    y_RX = y_RX + bias_X if activation is None else activation_row.oracle(y_RX, bias_X, activation)
    return y_RX if add_to is None else add_to + y_RX


def _multiply_with_error_bounds(x_RX, weight) -> tuple[np.ndarray, np.ndarray]:
    """(products of the scaled whole numbers, how far they may be off)."""
    q_RX, scale_R, unsure_RX = round_to_integers(x_RX, weight.x_bits)
    matrix, scale_X = weight.data.T.astype(float), weight.scale.astype(float)
    scales_RX = scale_R[:, None] * scale_X
    y_RX = q_RX @ matrix * scales_RX
    return y_RX, 4 * EPS * np.abs(y_RX) + scales_RX * (unsure_RX.astype(float) @ np.abs(matrix))


def error_bound(x_RX, weight, bias_X=None, activation=None, add_to=None):
    """A sum, its scale and their product round once each; then the activation's slope, and the roundings of the rest.

    A row whose numbers are all close to 1e-35 may count as zeros or not.
    """
    sums_RX, off_RX = _multiply_with_error_bounds(x_RX, weight)
    bias_X = np.zeros(sums_RX.shape[1]) if bias_X is None else bias_X
    if activation is None:
        off_RX = off_RX + EPS * np.abs(sums_RX + bias_X)
    else:
        off_RX = activation_row.error_through_activation(off_RX, sums_RX, bias_X, activation)
    return off_RX if add_to is None else off_RX + EPS * np.abs(oracle(x_RX, weight, bias_X, activation, add_to))


def make_paper_inputs(stored: str = "int8_dynamic", *, seed: int = 0) -> tuple[tuple, str]:
    """A prefill of GPT-2: 8 prompts of 16 tokens, the first product of a feed-forward layer."""
    rng = np.random.default_rng(seed)
    rows, n_in, n_out = 128, 768, 3072
    x_RX, matrix, bias_X = rng.standard_normal((rows, n_in)), rng.standard_normal((n_in, n_out)), np.ones(n_out)
    weight = replace(stored_weight(stored, Weight((0.02 * matrix).astype(np.float32))), bias=None)
    description = f"{rows} rows of {8 if stored == 'int8_dynamic' else 7} bits times int8 weights of {n_in} x {n_out}"
    return (x_RX.astype(np.float32), weight, bias_X.astype(np.float32), "gelu_new", None), description
