"""Bias and activation: inputs that find mistakes, what is right, and how near an answer must be."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from ..bounds import EPS
from ..sizes import BOUNDARIES, MANY_ROWS, ROWS, SEVERAL_WIDE, WIDE, WIDTH


def _scaled_logistic(slope: float):
    """x times the logistic function of slope * x."""
    return lambda x: 0.0 if slope * x < -700 else x / (1 + math.exp(-slope * x))


def _gelu_new(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _gelu(x: float) -> float:
    return 0.5 * x * math.erfc(-x / math.sqrt(2))


def _mish(x: float) -> float:
    """x tanh(log(1 + exp x)); log1p keeps the digits of a small exp, and above 40 the tanh is 1."""
    return x if x > 40 else x * math.tanh(math.log1p(math.exp(max(x, -740.0))))


EQUATIONS = {
    "gelu": _gelu,
    "gelu_python": _gelu,
    "gelu_10": lambda x: min(_gelu(x), 10.0),
    "gelu_new": _gelu_new,
    "gelu_pytorch_tanh": _gelu_new,
    "gelu_fast": _gelu_new,
    "quick_gelu": _scaled_logistic(1.702),
    "relu": lambda x: x if x > 0 or math.isnan(x) else 0.0,
    "silu": _scaled_logistic(1.0),
    "swish": _scaled_logistic(1.0),
    "tanh": math.tanh,
    "mish": _mish,
    "relu2": lambda x: 0.0 if x < 0 else x * x,
    "laplace": lambda x: 0.5 * math.erfc((0.707107 - x) / (0.282095 * math.sqrt(2))),
    "linear": lambda x: x,
}


@st.composite
def draw_inputs(draw):
    """A few plain numbers, an outlier among them; every width up to 40, so that most are no multiple of a warp."""
    R, F = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    number = st.sampled_from([0.0, 1.0, -1.0, 0.25, -3.0, 100.0, -1000.0])

    def draw_numbers(*shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        return np.array(draw(st.lists(number, min_size=count, max_size=count)), np.float32).reshape(shape)

    return (
        draw_numbers(R, F),
        draw_numbers(F) if draw(st.booleans()) else None,
        draw(st.sampled_from(sorted(EQUATIONS))),
    )


def planted_cases() -> list[tuple]:
    """Every activation, over shapes that divide nothing and numbers of every size, a NaN among them."""
    rng = np.random.default_rng(0)
    cases = []
    names = sorted(EQUATIONS)
    for k, (R, F) in enumerate(
        [(1, 1), (31, 33), (33, 31), (3, 1023), (5, 1025), (1, 257), (129, 2), (1, 4100), (2, 64)]
    ):
        f_RF, bias_F = rng.standard_normal((R, F)), rng.standard_normal(F)
        f_RF[0, ::7] *= 1e3  # outliers
        f_RF[-1, ::5] *= 1e-6
        f_RF[R // 2, 3::11] *= 1e15  # cubes that are infinite in float32
        bias_F[1::3] = -f_RF[0, 1::3]  # sums that are nothing but rounding
        f_RF[0, 2:3] = np.nan  # a mistake that must not be hidden
        f_RF, bias_F = f_RF.astype(np.float32), bias_F.astype(np.float32)
        cases += [(f_RF, bias_F, names[k]), (f_RF, None, names[-1 - k])]
    for name, F in (("gated-silu", 1), ("gated-gelu_new", 31), ("gated-relu", 257), ("gated-gelu", 2050)):  # pairs
        f_RX, bias_X = rng.standard_normal((7, 2 * F)), rng.standard_normal(2 * F)
        f_RX[0, 0], f_RX[1, -1] = 100.0, -1000.0
        cases += [(f_RX.astype(np.float32), bias, name) for bias in (bias_X.astype(np.float32), None)]
    line_RF = np.linspace(-9, 9, 2001, dtype=np.float32).reshape(3, 667)
    return [*cases, *((line_RF, None, name) for name in names)]


def large_cases() -> list[tuple]:
    """Many rows, long ones, and widths at the edges of blocks."""
    rng = np.random.default_rng(1)
    shapes = [*((2, F) for F in BOUNDARIES), (ROWS, WIDTH), SEVERAL_WIDE, (1, WIDE), (MANY_ROWS, 1)]
    names = [("relu", "gelu", "silu")[k % 3] for k in range(len(shapes))]
    arrays = [[rng.standard_normal(size).astype(np.float32) for size in (shape, shape[1])] for shape in shapes]
    return [(*pair, name) for pair, name in zip(arrays, names, strict=True)]


def oracle(f_RF, bias_F, activation):
    """Number by number in float64."""
    biased_RF = f_RF.astype(np.float64) + (0 if bias_F is None else bias_F)
    if activation.startswith("gated-"):
        return oracle(biased_RF[:, 0::2], None, activation.removeprefix("gated-")) * biased_RF[:, 1::2]
    return np.array([[EQUATIONS[activation](x) for x in row] for row in biased_RF.tolist()])


def error_bound(f_RF, bias_F, activation):
    """A share of |x|: the sum is rounded, and what is let through of it is off by a few roundings of 1.

    For relu2 a share of the square; gelu_10 and laplace do not grow with x for ever. Below the smallest normal number,
    roundings are as large as there.
    """
    biased_RF = np.abs(f_RF.astype(np.float64) + (0 if bias_F is None else bias_F))
    if activation.startswith("gated-"):
        return error_through_activation(0 * biased_RF, f_RF, bias_F, activation)
    if activation == "relu2":
        biased_RF = biased_RF**2
    elif activation == "gelu_10":
        biased_RF = np.minimum(biased_RF, 10.1)
    elif activation == "laplace":  # 0 or 1 far from the mean; both parts of 1 + erf round
        biased_RF = np.minimum(biased_RF, 4) + 0.5
    return 6 * EPS * biased_RF + 2.0**-147


def error_through_activation(off_RX, f_RX, bias_X, activation: str):
    """How far a result may be off where the numbers that are given are off by `off_RX`."""
    biased_RX = f_RX.astype(np.float64) + (0 if bias_X is None else bias_X)
    if not activation.startswith("gated-"):
        return slope_limit(off_RX, biased_RX, activation) * off_RX + error_bound(f_RX, bias_X, activation)
    name, (gate_RF, up_RF) = activation.removeprefix("gated-"), (biased_RX[:, i::2] for i in (0, 1))
    off_gate_RF = error_through_activation(off_RX[:, 0::2], gate_RF, None, name)
    off_up_RF = off_RX[:, 1::2] + EPS * np.abs(up_RF)
    through_RF = np.abs(oracle(gate_RF, None, name))
    return off_gate_RF * (np.abs(up_RF) + off_up_RF) + through_RF * (off_up_RF + EPS * np.abs(up_RF)) + 2.0**-147


def slope_limit(off_RF, biased_RF, activation: str):
    """The most that the activation enlarges an error of `off_RF` in the numbers that it is given."""
    if activation == "relu2":
        return 2 * (np.abs(biased_RF) + off_RF)
    return 1.42 if activation == "laplace" else 1.13


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A decode step of BART-large: 32 sentences of 4 beams."""
    rng = np.random.default_rng(seed)
    rows, width = 128, 4096
    f_RF, bias_F = (rng.standard_normal(shape, dtype=np.float32) for shape in ((rows, width), width))
    return (f_RF, bias_F, "gelu"), f"GELU of {rows} rows of {width} numbers"
