"""Weights stored as float16 and int8: what the storing may cost, and that nothing else is lost."""

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import minidecode as md
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import linear as linear_row
from minidecode.cpu import linear as cpu_linear
from minidecode.device.low_precision import dequantize_weight, quantize_weight, stored_weight, weights_stored_as
from minidecode.ops import Weight
from minidecode.reference.linear import linear

EPS = 2.0**-24
ON_CPU = {label: f for label, f in implementations(CATALOG["linear"]).items() if not label.startswith("cuda")}
sizes = st.sampled_from([1, 2, 31, 33, 65])


def matrix_of(seed, inputs, outputs, plant=True):
    """Float32 normals, each output of another size; with `plant`, an outlier of 1e4 and an output of zeros."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((inputs, outputs)) * 10.0 ** rng.integers(-4, 3, outputs)
    if plant:
        matrix[rng.integers(inputs), 0] = 1e4
        matrix[:, -1] = 0
    return matrix.astype(np.float32)


@given(st.integers(0, 2**32 - 1), sizes, sizes, st.booleans())
@example(0, 1, 1, True)
def test_a_quantized_weight_is_off_by_half_a_scale_at_the_most(seed, inputs, outputs, plant):
    """And a product by half a scale times the sum of |x|. (127 roundings of a step are what the division may add.)"""
    matrix = matrix_of(seed, inputs, outputs, plant)
    stored = quantize_weight(Weight(matrix))
    assert stored.data.dtype == np.int8 and stored.scale.shape == (outputs,) and stored.scale.dtype == np.float32
    half_X = 0.5 * stored.scale.astype(np.float64) * (1 + 512 * EPS)
    exact = linear_row.matrix_in_float64(stored)
    assert (np.abs(exact - matrix) <= half_X).all()
    x_RX = np.random.default_rng(seed + 1).standard_normal((3, inputs)).astype(np.float32)
    off_RX = np.abs(x_RX.astype(np.float64) @ exact - x_RX.astype(np.float64) @ matrix)
    assert (off_RX <= half_X * np.abs(x_RX.astype(np.float64)).sum(axis=1, keepdims=True) * (1 + 1e-12)).all()


def test_the_half_scale_is_reached_and_no_more_is_promised():
    """Weights in the middle between two steps are off by all of it: a bound of a third would be wrong."""
    stored = quantize_weight(Weight(np.array([[127.0], [0.5], [2.5], [-3.5]], np.float32)))
    assert stored.scale == 1
    assert np.abs(stored.data[:, 0] - [127, 0.5, 2.5, -3.5]).max() == 0.5


def test_an_outlier_costs_its_own_output_digits_and_no_other():
    matrix = np.full((4, 2), 0.01, np.float32)
    matrix[0, 0] = 100
    stored = dequantize_weight(quantize_weight(Weight(matrix)), np.dtype(np.float32))
    assert (stored[1:, 0] == 0).all(), "all that is below half a step is gone"
    assert np.allclose(stored[:, 1], 0.01, rtol=1e-6)


@pytest.mark.parametrize("tiny", [0.0, 1e-45, 1e-42, 1e-38])
def test_outputs_of_zeros_and_of_subnormal_numbers_stay_finite(tiny):
    stored = quantize_weight(Weight(np.full((3, 2), tiny, np.float32)))
    exact = linear_row.matrix_in_float64(stored)
    assert np.isfinite(stored.scale).all() and (np.abs(exact - tiny) <= max(tiny, 0)).all()
    assert (linear(np.ones((1, 3), np.float32), stored) == exact.sum(axis=0).astype(np.float32)).all()


@given(st.integers(0, 2**32 - 1), sizes, sizes)
def test_both_layouts_are_stored_alike(seed, inputs, outputs):
    matrix = matrix_of(seed, inputs, outputs)
    for dtype in ("float16", "int8", "float32"):
        io, oi = stored_weight(dtype, Weight(matrix)), stored_weight(dtype, Weight(matrix.T, layout="oi"))
        assert io.layout == oi.layout == "oi" and io.data.flags.c_contiguous
        assert np.array_equal(io.data, oi.data)
        assert io.scale is oi.scale is None or np.array_equal(io.scale, oi.scale)


def test_what_float16_cannot_hold_is_named():
    weights = Stack((Weight(np.ones((2, 2), np.float32)), Weight(np.full((2, 2), 1e5, np.float32))))
    with pytest.raises(md.CheckpointError, match=r"layers\[1\] holds 1e\+05, more than float16 can"):
        weights_stored_as("float16", weights)
    assert weights_stored_as("int8", weights).layers[1].scale[0] == np.float32(1e5) / 127


@dataclasses.dataclass(frozen=True)
class Stack:
    layers: tuple


def cases(R, inputs, outputs):
    rng = np.random.default_rng(R)
    x_RX, matrix = rng.standard_normal((R, inputs)), matrix_of(R, inputs, outputs)
    for stored in linear_row.ANY_WIDTH:
        for layout in linear_row.LAYOUTS:
            yield linear_row.make_arguments(x_RX, matrix, stored, layout)


def multiplied(function, x_RX, weight):
    """x as the function multiplies it: some round it to float16 first."""
    if not getattr(function, "rounds_x", False):
        return x_RX
    rounded = linear_row.round_arguments_to_float16(x_RX, weight)
    return x_RX if rounded is None else rounded[0]


def is_near(y_RX, x_RX, weight):
    return (np.abs(y_RX - linear_row.oracle(x_RX, weight)) <= linear_row.error_bound(x_RX, weight)).all()


@pytest.mark.parametrize("label", ON_CPU)
@pytest.mark.parametrize("R", [1, 2, 3, 31, 33, 65])
def test_widths_beside_those_of_vectors(label, R):
    for inputs, outputs in ((1, 33), (31, 1), (33, 31), (1025, 7), (3, 4500)):
        for x_RX, weight in cases(R, inputs, outputs):
            assert is_near(ON_CPU[label](x_RX, weight), multiplied(ON_CPU[label], x_RX, weight), weight)


@pytest.mark.parametrize("label", ON_CPU)
def test_arrays_with_steps_and_offsets_are_read_where_they_lie(label):
    """Every second row and column of larger arrays, and columns from the third on."""
    for x_RX, weight in cases(5, 33, 9):
        wide_x, wide_w = np.full((10, 70), np.nan, np.float32), np.full((80, 80), 99).astype(weight.data.dtype)
        n, m = weight.data.shape
        wide_x[::2, 3:69:2], wide_w[1 : 2 * n : 2, 2 : 2 + 2 * m : 2] = x_RX, weight.data
        there = dataclasses.replace(weight, data=wide_w[1 : 2 * n : 2, 2 : 2 + 2 * m : 2])
        y_RX = ON_CPU[label](wide_x[::2, 3:69:2], there)
        assert is_near(y_RX, multiplied(ON_CPU[label], x_RX, weight), weight)


@pytest.mark.parametrize("label", ON_CPU)
def test_a_product_can_be_added_to_an_array(label):
    for x_RX, weight in [*cases(3, 33, 9), *cases(70, 33, 9)]:
        start_RX = np.random.default_rng(9).standard_normal((len(x_RX), 9)).astype(np.float32)
        target_RX = start_RX.copy()
        assert ON_CPU[label](x_RX, weight, target_RX) is target_RX
        x_RX = multiplied(ON_CPU[label], x_RX, weight)
        exact_RX = start_RX + linear_row.oracle(x_RX, weight)
        assert (np.abs(target_RX - exact_RX) <= linear_row.error_bound(x_RX, weight) + EPS * np.abs(exact_RX)).all()


def test_double_precision_stays_double():
    x_RX, matrix = np.random.default_rng(0).standard_normal((2, 3, 3))
    for function in (f for label, f in ON_CPU.items() if label != "cpu few_rows"):  # whose sums are float32
        assert np.abs(function(x_RX, Weight(matrix)) - x_RX @ matrix).max() < 1e-14


def test_what_is_few_runs_the_loops(monkeypatch):
    """By rows, layout and size of the weights; and no other dtype than it is said of."""
    seen = []
    monkeypatch.setattr(cpu_linear, "linear_few_rows", lambda x, w, *_: seen.append((len(x), w.data.dtype, w.layout)))
    large = np.zeros((1024, 512), np.float32)  # 2 MB
    few = [cpu_linear.FEW[np.dtype(stored)] for stored in ("float32", "int8")]
    tried = (1, 2, 8, 9, *few, few[0] + 1, few[1] + 1)
    for weight in (Weight(large), Weight(large, layout="oi"), quantize_weight(Weight(large)), Weight(large[1:])):
        for R in tried:
            inputs = weight.data.shape[0 if weight.layout == "io" else 1]
            cpu_linear.linear(np.zeros((R, inputs), np.float32), weight)
    assert seen == [
        *((R, np.float32, "io") for R in (2, 8)), *((R, np.float32, "oi") for R in tried if few[0] >= R),
        *((R, np.int8, "io") for R in tried if few[1] >= R),
    ]  # fmt: skip
