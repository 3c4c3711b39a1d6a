"""Products that end in bias, activation and residual: inputs that find mistakes, what is right, how near."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from ...device.weight_blocks import BLOCKS
from ..attention import draw_array
from ..bounds import EPS
from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, SEVERAL_WIDE, WIDE, WIDTH
from . import activation as activation_row
from . import linear as linear_row
from .activation import EQUATIONS
from .linear import ANY_WIDTH, LAYOUTS, STORED

round_arguments_to_float16 = linear_row.round_arguments_to_float16  # judges functions that round x to float16


def make_arguments(
    x_RX: np.ndarray, matrix: np.ndarray, stored: str, layout: str, bias_X: np.ndarray | None, activation: str | None,
    add_to: np.ndarray | None,
) -> tuple:  # fmt: skip
    """(x_RX, weight, activation, add_to), the matrix of (inputs, outputs) laid out and stored as it is said."""
    x_RX, weight = linear_row.make_arguments(x_RX, matrix, stored, layout)
    bias_X, add_to = (None if a is None else a.astype(np.float32) for a in (bias_X, add_to))
    return x_RX, replace(weight, bias=bias_X), activation, add_to


@st.composite
def draw_inputs(draw):
    """A few plain numbers; every width up to 40, so that most are no multiple of a warp."""
    R, n_in, n_out = draw(st.integers(1, 5)), draw(st.integers(1, 40)), draw(st.integers(1, 5))
    stored, layout = draw(st.sampled_from(STORED)), draw(st.sampled_from(LAYOUTS))
    activation = draw(st.sampled_from([None, "relu", *sorted(set(EQUATIONS) - {"relu"})]))
    bias_X = draw_array(draw, n_out) if draw(st.booleans()) else None
    add_to = draw_array(draw, R, n_out) if draw(st.booleans()) else None
    return make_arguments(
        draw_array(draw, R, n_in), draw_array(draw, n_in, n_out), stored, layout, bias_X, activation, add_to
    )


def planted_cases() -> list[tuple]:
    """All ways to store a weight and to end a sum, every activation, at sizes beside those of warps and blocks."""
    sizes = [(3, 33, 5), (1, 1025, 2), (2, 31, 33), (31, 1, 2), (33, 65, 1), (65, 3, 3), (4, 64, 5), (1, 2, 1023),
             (9, 1023, 1)]  # fmt: skip
    names, cases = [None, *sorted(EQUATIONS)], []
    for number, ((R, n_in, n_out), stored, layout) in enumerate(itertools.product(sizes, ANY_WIDTH, LAYOUTS)):
        rng = np.random.default_rng(number)
        x_RX, matrix = rng.standard_normal((R, n_in)), rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)
        matrix *= 10.0 ** rng.integers(-2, 2, n_out)  # each output has a scale of its own
        x_RX[0, rng.integers(n_in)] = 100.0  # an outlier among the inputs
        matrix[rng.integers(n_in), 0] = 50.0  # and one among an output's weights
        if n_out > 2:
            matrix[:, n_out // 2] = 0  # an output of zeros: its scale is 0, and only the bias is left
        bias_X, add_to = rng.standard_normal(n_out), rng.standard_normal((R, n_out))
        ending = number % 4  # the first case adds to nothing: it is the one that `out` is tried on
        cases.append(
            make_arguments(
                x_RX, matrix, stored, layout, None if ending == 2 else bias_X, names[number % len(names)],
                add_to if ending % 2 else None,
            )
        )  # fmt: skip
    rng = np.random.default_rng(0)
    x_RX, matrix, bias_X, add_to = (rng.standard_normal(shape) for shape in ((5, 40), (40, 7), 7, (5, 7)))
    cases += [make_arguments(x_RX, matrix, "int8", "io", bias_X, name, add_to) for name in names]
    ways = itertools.product(BLOCKS, (None, "gelu"))
    cases += [make_arguments(x_RX, matrix, stored, "oi", bias_X, name, add_to) for stored, name in ways]
    matrix, bias_X, add_to = (rng.standard_normal(shape) for shape in ((40, 66), 66, (5, 33)))  # pairs of gate and up
    for stored, layout, bias, to in [("float32", "io", bias_X, None), ("int8", "oi", None, add_to),
                                     ("float16", "oi", bias_X, add_to), ("float32", "oi", None, None)]:  # fmt: skip
        cases.append(make_arguments(x_RX, matrix, stored, layout, bias, "gated-silu", to))
    return cases


def large_cases() -> list[tuple]:
    """Many rows, long sums, as many outputs as a large vocabulary has, and widths at the edges of blocks."""
    rng, cases = np.random.default_rng(1), []
    sizes = [*((2, n, 2) for n in BOUNDARIES), (ROWS, WIDTH, 2), (*SEVERAL_WIDE, 2), (1, WIDTH, WIDE)]
    sizes += [(3, WIDTH, SEVERAL_WIDE[1]), (1, WIDE, 1), (MANY_ROWS, 1, 1)]
    for k, (R, n_in, n_out) in enumerate(sizes):
        x_RX, matrix = rng.standard_normal((R, n_in)), rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)
        ways = STORED[k % len(STORED)], LAYOUTS[k % 2]
        cases.append(make_arguments(x_RX, matrix, *ways, rng.standard_normal(n_out), "gelu", None))
    return cases


def oracle(x_RX, weight, activation=None, add_to=None):
    """The product's sums, which round once, and number by number what is done to them, in float64."""
    y_RX = linear_row.oracle(x_RX, weight)
    bias_X = np.zeros(y_RX.shape[1]) if weight.bias is None else weight.bias
    y_RX = y_RX + bias_X if activation is None else activation_row.oracle(y_RX, bias_X, activation)
    return y_RX if add_to is None else add_to + y_RX


def error_bound(x_RX, weight, activation=None, add_to=None):
    """The sum's error goes through the activation, which enlarges it by its slope; then the roundings of the rest."""
    sums_RX, off_RX = linear_row.oracle(x_RX, weight), linear_row.error_bound(x_RX, weight)
    bias_X = np.zeros(sums_RX.shape[1]) if weight.bias is None else weight.bias
    if activation is None:
        off_RX = off_RX + EPS * np.abs(sums_RX + bias_X)
    else:
        off_RX = activation_row.error_through_activation(off_RX, sums_RX, bias_X, activation)
    return off_RX if add_to is None else off_RX + EPS * np.abs(oracle(x_RX, weight, activation, add_to))


def make_paper_inputs(stored: str = "int8", *, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of GPT-2: 4 beams, the first product of a feed-forward layer."""
    rng = np.random.default_rng(seed)
    rows, n_in, n_out = 4, 768, 3072
    x_RX, matrix, bias_X = rng.standard_normal((rows, n_in)), rng.standard_normal((n_in, n_out)), np.ones(n_out)
    description = f"{rows} rows times {stored} weights of {n_in} x {n_out}, bias and gelu_new"
    return make_arguments(x_RX, 0.02 * matrix, stored, "io", bias_X, "gelu_new", None), description
