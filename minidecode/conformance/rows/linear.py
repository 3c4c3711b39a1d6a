"""Products with weights of float32, float16, int8 and blocks: inputs that find mistakes, what is right, how near."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
from hypothesis import strategies as st

from ...device.low_precision import STORED as SMALLER
from ...device.low_precision import dequantize_weight, is_narrow, round_rows_to_float16, stored_weight
from ...device.weight_blocks import BLOCK, BLOCKS, is_in_blocks
from ...ops import Weight
from ..attention import draw_array
from ..bounds import EPS
from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, SEVERAL_WIDE, WIDE, WIDTH

ANY_WIDTH = ("float32", *SMALLER)  # these may have any number of inputs, and both layouts
STORED = (*ANY_WIDTH, *BLOCKS)
LAYOUTS = ("io", "oi")


def make_arguments(x_RX: np.ndarray, matrix: np.ndarray, stored: str, layout: str) -> tuple:
    """(x_RX, weight) from a matrix of (inputs, outputs), laid out and stored as it is said.

    Weights in blocks are laid out by outputs. The inputs that fill their last block up are zeros on both sides.
    """
    if stored in BLOCKS:
        missing = -len(matrix) % BLOCK
        x_RX, matrix = np.pad(x_RX, ((0, 0), (0, missing))), np.pad(matrix, ((0, missing), (0, 0)))
    weight = stored_weight(stored, Weight(matrix.astype(np.float32)))  # which lays it out by outputs
    if layout == "io" and not is_in_blocks(weight):
        weight = dataclasses.replace(weight, data=np.ascontiguousarray(weight.data.T), layout="io")
    return x_RX.astype(np.float32), weight


@st.composite
def draw_inputs(draw):
    """A few plain numbers; every width up to 40, so that most are no multiple of a warp."""
    R, n_in, n_out = draw(st.integers(1, 5)), draw(st.integers(1, 40)), draw(st.integers(1, 5))
    stored, layout = draw(st.sampled_from(STORED)), draw(st.sampled_from(LAYOUTS))
    return make_arguments(draw_array(draw, R, n_in), draw_array(draw, n_in, n_out), stored, layout)


def planted_cases() -> list[tuple]:
    """All ways to store a weight, at sizes beside the multiples of warps and blocks."""
    sizes = [(3, 33, 5), (1, 1025, 2), (2, 31, 33), (31, 1, 2), (33, 65, 1), (65, 3, 3), (4, 64, 5)]
    cases = []
    for number, ((R, n_in, n_out), stored, layout) in enumerate(itertools.product(sizes, ANY_WIDTH, LAYOUTS)):
        rng = np.random.default_rng(number)
        x_RX, matrix = rng.standard_normal((R, n_in)), rng.standard_normal((n_in, n_out))
        matrix *= 10.0 ** rng.integers(-2, 3, n_out)  # each output has a scale of its own
        x_RX[0, rng.integers(n_in)] = 1000.0  # an outlier among the inputs
        matrix[rng.integers(n_in), 0] = 500.0  # and one among an output's weights
        if n_out > 2:
            matrix[:, n_out // 2] = 0  # an output of zeros: its scale is 0
        cases.append(make_arguments(x_RX, matrix, stored, layout))
    rng = np.random.default_rng(0)  # one sign: sums grow all the way
    cases.append(make_arguments(rng.random((2, 500)), rng.random((500, 3)), "float32", "oi"))
    return [*cases, *planted_cases_in_blocks()]


def planted_cases_in_blocks() -> list[tuple]:
    """Each block with a scale of its own; one of zeros; the extremes -8 and 127; outputs beside those of a panel."""
    cases = []
    for number, ((R, blocks, n_out), stored) in enumerate(
        itertools.product([(3, 2, 5), (1, 24, 33), (7, 1, 64), (65, 3, 2), (13, 33, 1)], BLOCKS)
    ):
        rng = np.random.default_rng(number)
        n_in = blocks * BLOCK
        x_RX, matrix = rng.standard_normal((R, n_in)), rng.standard_normal((n_in, n_out))
        matrix = (matrix.reshape(blocks, BLOCK, n_out) * 10.0 ** rng.integers(-2, 3, (blocks, 1, n_out))).reshape(
            n_in, n_out
        )
        x_RX[0, rng.integers(n_in)] = 1000.0  # an outlier among the inputs
        matrix[-BLOCK:, n_out // 2] = 0  # a block of zeros: its scale is 0
        cases.append(make_arguments(x_RX, matrix, stored, "oi"))
    for stored in BLOCKS:  # each input by itself: which number of a byte, or of a word, is whose
        cases.append(make_arguments(np.eye(64), np.arange(-64.0, 128).reshape(3, 64).T, stored, "oi"))
    return cases


def large_cases() -> list[tuple]:
    """Many rows, long sums, as many outputs as a large vocabulary has, and widths at the edges of blocks."""
    rng, cases = np.random.default_rng(1), []
    sizes = [*((2, n, 2) for n in BOUNDARIES), (ROWS, WIDTH, 2), (*SEVERAL_WIDE, 2), (1, WIDTH, WIDE)]
    sizes += [(3, WIDTH, SEVERAL_WIDE[1]), (1, WIDE, 1), (MANY_ROWS, 1, 1)]
    for k, (R, n_in, n_out) in enumerate(sizes):
        x_RX, matrix = rng.standard_normal((R, n_in)), rng.standard_normal((n_in, n_out))
        cases.append(make_arguments(x_RX, matrix, STORED[k % len(STORED)], LAYOUTS[k % 2]))
    return cases


def oracle(x_RX, weight):
    """Each result a sum that rounds once, over the numbers that the stored weights stand for."""
    matrix = matrix_in_float64(weight)
    return np.array([[math.fsum(x_X * column) for column in matrix.T] for x_X in x_RX.astype(np.float64)])


def error_bound(x_RX, weight):
    """A sum of n products in float32 is off by sqrt(n) roundings of its partial sums, in whatever order it runs.

    Those are as long as the vector of products where signs are mixed, and grow up to the sum where they are not. The
    scale costs a rounding of the result, or one of each weight.
    """
    x_RX, matrix = x_RX.astype(np.float64), matrix_in_float64(weight)
    walk_RX = np.sqrt(x_RX**2 @ matrix**2)
    return EPS * (math.sqrt(len(matrix)) * (2 * walk_RX + np.abs(x_RX @ matrix)) + 2 * np.abs(x_RX) @ np.abs(matrix))


def round_arguments_to_float16(x_RX, weight, *others) -> tuple | None:
    """The arguments of which a function that is marked as `rounding` computes the product; None if they are these."""
    return (round_rows_to_float16(x_RX), weight, *others) if is_narrow(weight) and weight.x_bits is None else None


def matrix_in_float64(weight) -> np.ndarray:
    """(inputs, outputs) in float64: for integers scale * data, which float64 holds exactly."""
    if is_in_blocks(weight):
        return dequantize_weight(weight, np.dtype(np.float64)).T
    matrix = weight.data.astype(np.float64) if weight.layout == "io" else weight.data.T.astype(np.float64)
    return matrix if weight.scale is None else matrix * weight.scale


def make_paper_inputs(stored: str = "int8", *, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of GPT-2: 4 beams, the widest product of a layer."""
    rng = np.random.default_rng(seed)
    rows, n_in, n_out = 4, 768, 3072
    x_RX, matrix = rng.standard_normal((rows, n_in)), 0.02 * rng.standard_normal((n_in, n_out))
    return make_arguments(x_RX, matrix, stored, "io"), f"{rows} rows times {stored} weights of {n_in} x {n_out}"
