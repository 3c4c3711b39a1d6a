"""Products of the library: what cuBLAS is asked for, how NumPy adds up in its place, and integers of any rows."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda, float32

import minidecode as md
from minidecode.conformance.rows import linear_int8 as row
from minidecode.cuda import linear_int8
from minidecode.cuda.common.tensor_core import multiply_tiles, one_word
from minidecode.device import matmul
from minidecode.device.launch import InEmulator, counted_launches
from minidecode.device.matmul import PRODUCT, can_multiply_int8, multiply_by_cublas
from minidecode.emulator import tensor_core

FLOAT32, INT32 = matmul.KINDS[np.dtype(np.float32)], matmul.KINDS[np.dtype(np.int32)]
INT8, COMPUTE_32F, COMPUTE_32I = matmul.KINDS[np.dtype(np.int8)], 68, 72


def column_major(address, kind, rows, columns, between, per_matrix, stacks):
    """The stack that cuBLAS finds there."""
    assert between >= max(1, rows)
    item = {number: dtype for dtype, number in matmul.KINDS.items()}[kind]
    last = (stacks - 1) * per_matrix + (columns - 1) * between + rows
    cache = (ctypes.c_char * (last * item.itemsize)).from_address(address)
    strides = [item.itemsize * s for s in (per_matrix, 1, between)]
    return np.ndarray((stacks, rows, columns), item, cache, strides=strides)


def gemm_strided_batched(
    handle, a_transposed, b_transposed, m, n, k, alpha, a, a_kind, a_between, a_per, b, b_kind, b_between, b_per, beta,
    c, c_kind, c_between, c_per, stacks, compute, algorithm,
):  # fmt: skip
    """cuBLAS's manual: C = alpha op(A) op(B) + beta C, columns first. Both types of A and B must be one.

    Of int8 it says: sums in int32, factors of 0 or 1 that are int32 too; addresses, leading dimensions, m and k are
    multiples of four, A is transposed and B is not.
    """
    of_integers = a_kind == INT8
    assert a_kind == b_kind and (c_kind, compute) == ((INT32, COMPUTE_32I) if of_integers else (FLOAT32, COMPUTE_32F))
    if of_integers:
        assert (a_transposed, b_transposed) == (1, 0)
        assert not any(number % 4 for number in (a, b, c, m, k, a_between, b_between, c_between))
    of_a = column_major(a, a_kind, *((k, m) if a_transposed else (m, k)), a_between, a_per, stacks)
    of_b = column_major(b, b_kind, *((n, k) if b_transposed else (k, n)), b_between, b_per, stacks)
    of_a, of_b = (x.astype(np.int32 if of_integers else np.float32) for x in (of_a, of_b))
    of_a = of_a.transpose(0, 2, 1) if a_transposed else of_a
    of_b = of_b.transpose(0, 2, 1) if b_transposed else of_b
    scalar = ctypes.c_int32 if of_integers else ctypes.c_float
    (one, before) = (scalar.from_address(x).value for x in (alpha, beta))
    of_c = column_major(c, c_kind, m, n, c_between, c_per, stacks)
    of_c[...] = one * (of_a @ of_b) + (before * of_c if before else 0)  # it does not read what counts nothing


@pytest.fixture
def cublas_by_its_manual(monkeypatch):
    """Stands for the functions of cuBLAS, on the host's memory: that the numbers given to it are right, no more."""
    door = SimpleNamespace(name="manual", single=gemm, batched=gemm_strided_batched)
    monkeypatch.setattr(matmul, "cublas_functions", lambda: door)
    monkeypatch.setattr(matmul, "bind_cublas_handle", lambda: 0)


def gemm(handle, a_transposed, b_transposed, m, n, k, alpha, *rest):
    """The same of one matrix each, whose stacks have no stride."""
    a, a_kind, a_between, b, b_kind, b_between, beta, c, c_kind, c_between, *how = rest
    stacked = a, a_kind, a_between, 0, b, b_kind, b_between, 0, beta, c, c_kind, c_between, 0, 1
    gemm_strided_batched(handle, a_transposed, b_transposed, m, n, k, alpha, *stacked, *how)


def on_device(array):
    """What multiply_by_cublas asks of an array of CuPy's."""
    like = {name: getattr(array, name) for name in ("shape", "strides", "itemsize", "dtype", "ndim", "flags")}
    return SimpleNamespace(**like, data=SimpleNamespace(ptr=array.ctypes.data))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("sizes", [(3, 4, 5, 6), (1, 1, 1, 1), (2, 4, 5, 1), (2, 4, 1, 6), (2, 1, 5, 6), (1, 7, 3, 2)])
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_cublas_reads_stacks_and_matrices_by_their_strides(cublas_by_its_manual, dtype, sizes, transposed):
    stacks, rows, inner, columns = sizes
    rng = np.random.default_rng(0)

    def stack(rows, columns, is_transposed):
        shape = (stacks, columns, rows) if is_transposed else (stacks, rows, columns)
        array = rng.standard_normal(shape).astype(dtype)
        return array.transpose(0, 2, 1) if is_transposed else array

    a, b = stack(rows, inner, transposed[0]), stack(inner, columns, transposed[1])
    out = np.full((stacks, rows, columns), 7, np.float32)
    right = a.astype(np.float64) @ b.astype(np.float64)
    multiply_by_cublas(*map(on_device, (a, b, out)))
    np.testing.assert_allclose(out, right, rtol=1e-5, atol=1e-5)
    out[...] = 7
    multiply_by_cublas(*map(on_device, (a[0], b[0], out[0])))
    np.testing.assert_allclose(out[0], right[0], rtol=1e-5, atol=1e-5)
    multiply_by_cublas(*map(on_device, (a, b, out)), adds=True)
    np.testing.assert_allclose(out[1:], 7 + right[1:], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out[0], 2 * right[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [(33, 64, 8), (1, 4, 4), (41, 68, 12)])
def test_cublas_gets_integers_as_its_manual_wants_them(cublas_by_its_manual, sizes):
    """Among them the largest products, of one sign: sums that float32 does not hold."""
    R, inputs, outputs = sizes
    rng = np.random.default_rng(0)
    q_RX, w_XX = (rng.integers(-127, 128, shape, dtype=np.int8) for shape in ((R, inputs), (outputs, inputs)))
    q_RX[0], w_XX[0] = 127, -127
    sums_RX, by_numpy = np.full((2, R, outputs), 7, np.int32)
    assert can_multiply_int8(*map(on_device, (q_RX, w_XX)))
    multiply_by_cublas(*map(on_device, (q_RX, w_XX.T, sums_RX)))
    np.testing.assert_array_equal(sums_RX, q_RX.astype(np.int32) @ w_XX.T.astype(np.int32))
    matmul.multiply_by_numpy(q_RX, w_XX.T, by_numpy)
    np.testing.assert_array_equal(by_numpy, sums_RX)


def test_what_is_no_multiple_of_four_is_none_of_the_librarys():
    bytes_X = np.zeros(400, np.int8)
    first = -bytes_X.ctypes.data % 4
    whole, moved = (bytes_X[begin : begin + 128].reshape(4, 32) for begin in (first, first + 1))
    assert can_multiply_int8(whole, whole)
    for other in (whole[:, :30], moved, whole[:, ::2], whole[:, :0], whole[:, :16]):
        assert not can_multiply_int8(other, other), other.shape
    assert not can_multiply_int8(moved, whole) and not can_multiply_int8(whole, moved)
    assert not can_multiply_int8(whole, whole[:3]), "three outputs"


@pytest.mark.parametrize("ending", ["plain", "all", "gated"])
def test_the_number_of_rows_changes_no_bit_of_integer_products(ending, monkeypatch):
    """From `LIBRARY_FROM` rows on the library multiplies, on either side of it the same sums are ended alike."""
    monkeypatch.setattr(linear_int8, "LIBRARY_FROM", 9)
    rng, outputs = np.random.default_rng(0), 8
    x_RX, matrix = rng.standard_normal((12, 64)), rng.standard_normal((64, outputs))
    x_RX[3] = x_RX[5, 2] = 0
    x_RX[4, 1] = np.nan
    bias_X = None if ending == "plain" else rng.standard_normal(outputs)
    activation = {"plain": None, "all": "gelu", "gated": "gated-silu"}[ending]
    width = outputs // 2 if ending == "gated" else outputs
    add_to = None if ending == "plain" else rng.standard_normal((12, width))
    x_RX, weight, *ends_in, add_to = row.make_arguments(x_RX, matrix, "int8_dynamic", bias_X, activation, add_to)
    found = {}
    for R in (1, 8, 9, 12):
        with counted_launches() as launches:
            some = None if add_to is None else add_to[:R].copy()
            found[R] = InEmulator(linear_int8.linear_int8)(x_RX[:R], weight, *ends_in, some)
        assert (f"{PRODUCT} (numpy)" in launches) == ("end_sums (emulator)" in launches) == (R >= 9)
    for R, y_RX in found.items():
        np.testing.assert_array_equal(y_RX, found[12][:R])
    arguments = x_RX, weight, *ends_in, add_to
    off, bound = np.abs(found[12] - row.oracle(*arguments)), row.error_bound(*arguments)
    assert (np.isnan(found[12][4])).all() and (np.delete(off, 4, 0) <= np.delete(bound, 4, 0)).all()


def test_results_go_where_they_are_wanted(monkeypatch):
    """Sums lie in `out` itself where its rows lie side by side, else beside it."""
    rng = np.random.default_rng(1)
    x_RX, weight, *_ = row.make_arguments(rng.standard_normal((3, 8)), rng.standard_normal((8, 4)), "int8_dynamic")
    monkeypatch.setattr(linear_int8, "LIBRARY_FROM", 4)
    right = InEmulator(linear_int8.linear_int8)(x_RX, weight)
    monkeypatch.setattr(linear_int8, "LIBRARY_FROM", 1)
    for out in (np.empty((3, 4), np.float32), np.empty((3, 9), np.float32)[:, :4]):
        with counted_launches() as launches:
            assert InEmulator(linear_int8.linear_int8)(x_RX, weight, out=out) is out
        assert f"{PRODUCT} (numpy)" in launches
        np.testing.assert_array_equal(out, right)


@cuda.jit
def by_instructions(x_XX, w_XX, y_XX):
    """A tile of 16 rows by 8 outputs, eight inputs an instruction."""
    lane = cuda.threadIdx.x
    g, t = lane // 4, lane % 4
    a = b = c = d = float32(0)
    for k in range(0, x_XX.shape[1], 8):
        x_low, x_high = one_word(x_XX, g, k + 2 * t)[0], one_word(x_XX, g + 8, k + 2 * t)[0]
        a, b, c, d = multiply_tiles(x_low, x_high, one_word(w_XX, g, k + 2 * t)[0], a, b, c, d)
    y_XX[g, 2 * t], y_XX[g, 2 * t + 1], y_XX[g + 8, 2 * t], y_XX[g + 8, 2 * t + 1] = a, b, c, d


@pytest.mark.parametrize("inputs", [8, 120])
def test_numpy_cuts_off_where_the_emulated_instruction_does(inputs):
    """Bit for bit; and it is no rounding: of positive numbers no sum is too large, and some are too small."""
    rng = np.random.default_rng(inputs)
    for shift in (0, 3):
        x_XX, w_XX = ((rng.standard_normal((n, inputs)) + shift).astype(np.float16) for n in (16, 8))
        y_XX, found = np.full((2, 16, 8), np.nan, np.float32)
        assert md.emulate(by_instructions)[1, 32](x_XX, w_XX, y_XX).ok
        matmul.multiply_by_numpy(x_XX, w_XX.T, found)
        np.testing.assert_array_equal(found, y_XX)
    exact = x_XX.astype(np.float64) @ w_XX.T.astype(np.float64)
    assert (found <= exact).all() and (found < exact.astype(np.float32)).any()


def test_stacks_are_cut_off_alike_and_what_is_not_finite_stays():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 1, 5, 20)).astype(np.float16), rng.standard_normal((2, 20, 4)).astype(np.float16)
    stacked = tensor_core.tensor_core_product(a, b)
    assert stacked.shape == (3, 2, 5, 4)
    np.testing.assert_array_equal(stacked[1, 1], tensor_core.tensor_core_product(a[1, 0], b[1]))
    a[0, 0, 2, 7] = np.inf
    spoilt = tensor_core.tensor_core_product(a, b)
    assert not np.isfinite(spoilt[0, :, 2]).any()
    np.testing.assert_array_equal(np.delete(spoilt, 2, 2), np.delete(stacked, 2, 2))
    assert tensor_core.cut_off(np.array([1e300, -1e300, 0.1])).tolist() == [np.inf, -np.inf, np.float32(0.099999994)]
