"""EL's version 3: what it launches, what float16 costs it, and how cuBLAS is asked for a stack of products."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import minidecode as md
from minidecode.conformance.rows import el as el_row
from minidecode.cuda import el
from minidecode.device import products
from minidecode.device.launch import InEmulator, counted_launches
from minidecode.device.products import PRODUCT, by_cublas

attend = InEmulator(el.attend_el_v3)
SMALL = dict(B=2, W=2, N=9, H=4, G=2, K=3, U=2, D=8, h_dtype=np.float16)
HALF_CASES = [
    SMALL,
    SMALL | dict(W=3, H=3, G=1, N=33, D=31),
    SMALL | dict(B=1, N=1, D=1),
    SMALL | dict(B=1, H=2, N=70, K=16, U=8, D=130),
]


@pytest.mark.parametrize("half", [False, True])
def test_version_3_is_one_kernel_among_four_products(half):
    with counted_launches() as launches:
        attend(*el_row.arguments_of(**SMALL), half=half)
    assert launches == {"masked_softmax (emulator)": 1, f"{PRODUCT} (numpy)": 4}


def rounding(x):
    """r(x): half a unit in the last place of float16, at most."""
    return np.maximum(2.0**-11 * np.abs(x), 2.0**-25)


def half_bound(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale):
    """What the roundings of q' and p may move, as attend_el_v3 says, beside what float32 may."""
    H, G, moved = q_RHK.shape[1], len(w_k_GKD), []
    for _, q_HK, h_ND in el_row.rows_of(q_RHK.astype(np.float64), h_BND.astype(np.float64), begin_B):
        for h, q_K in enumerate(q_HK):
            g = h // (H // G)
            el_q_D, v_NU = scale * q_K @ w_k_GKD[g], h_ND @ w_v_GUD[g].T
            p_N = np.exp(h_ND @ el_q_D - (h_ND @ el_q_D).max())
            p_N /= p_N.sum()
            e_N = np.abs(h_ND) @ rounding(el_q_D)
            f_N = np.exp(e_N) * (p_N @ np.exp(e_N))
            moved.append((f_N - 1) * p_N @ np.abs(v_NU - p_N @ v_NU) + rounding(f_N * p_N) @ np.abs(v_NU))
    float32 = el_row.bound(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale)
    return float32 + np.reshape(moved, float32.shape)


def off_and_bound(**sizes):
    arguments = el_row.arguments_of(**sizes)
    return np.abs(attend(*arguments, half=True) - el_row.oracle(*arguments)), half_bound(*arguments)


@pytest.mark.parametrize("sizes", HALF_CASES, ids=str)
def test_float16_factors_err_by_their_roundings_and_no_more(sizes):
    off, bound = off_and_bound(**sizes)
    assert (off <= bound).all()
    one_position = sizes["N"] == 1  # whose weight is 1, in any type
    assert one_position or (off > el_row.bound(*el_row.arguments_of(**sizes))).any(), "nothing was rounded to float16"


@pytest.mark.parametrize("seed", [0, 2])
def test_the_bound_of_float16_is_narrow(seed):
    """Roundings eight times as coarse, which are bfloat16's, would break it."""
    off, bound = off_and_bound(seed=seed, **SMALL)
    assert (8 * off > bound).any()


def test_float16_factors_want_float16_hidden_states():
    with pytest.raises(md.OptionError, match=r"half=True .* these are float32"):
        attend(*el_row.arguments_of(**SMALL | dict(h_dtype=np.float32)), half=True)


def column_major(address, kind, rows, columns, between, per_matrix, stacks):
    """The stack that cuBLAS finds there."""
    assert between >= max(1, rows)
    item = np.dtype({number: name for name, number in products.KINDS.items()}[kind])
    last = (stacks - 1) * per_matrix + (columns - 1) * between + rows
    cache = (ctypes.c_char * (last * item.itemsize)).from_address(address)
    strides = [item.itemsize * s for s in (per_matrix, 1, between)]
    return np.ndarray((stacks, rows, columns), item, cache, strides=strides)


def gemm_strided_batched(
    handle, a_transposed, b_transposed, m, n, k, alpha, a, a_kind, a_between, a_per, b, b_kind, b_between, b_per, beta,
    c, c_kind, c_between, c_per, stacks, compute, algorithm,
):  # fmt: skip
    """cuBLAS's manual: C = alpha op(A) op(B) + beta C, columns first. Both types of A and B must be one."""
    assert a_kind == b_kind and c_kind == products.KINDS["f"] and compute == products.SUMS_IN_FLOAT32
    of_a = column_major(a, a_kind, *((k, m) if a_transposed else (m, k)), a_between, a_per, stacks)
    of_b = column_major(b, b_kind, *((n, k) if b_transposed else (k, n)), b_between, b_per, stacks)
    of_a, of_b = (x.astype(np.float32) for x in (of_a, of_b))
    of_a = of_a.transpose(0, 2, 1) if a_transposed else of_a
    of_b = of_b.transpose(0, 2, 1) if b_transposed else of_b
    (one, zero) = (ctypes.c_float.from_address(x).value for x in (alpha, beta))
    of_c = column_major(c, c_kind, m, n, c_between, c_per, stacks)
    of_c[...] = one * (of_a @ of_b) + zero * of_c


@pytest.fixture
def cublas_by_its_manual(monkeypatch):
    """Stands for the door to cuBLAS, on the host's memory: that the numbers given to it are right, no more."""
    door = SimpleNamespace(name="manual", single=gemm, batched=gemm_strided_batched)
    monkeypatch.setattr(products, "library", lambda: door)
    monkeypatch.setattr(products, "_handle", lambda: 0)


def gemm(handle, a_transposed, b_transposed, m, n, k, alpha, *rest):
    """The same of one matrix each, whose stacks have no stride."""
    a, a_kind, a_between, b, b_kind, b_between, beta, c, c_kind, c_between, *how = rest
    stacked = a, a_kind, a_between, 0, b, b_kind, b_between, 0, beta, c, c_kind, c_between, 0, 1
    gemm_strided_batched(handle, a_transposed, b_transposed, m, n, k, alpha, *stacked, *how)


def on_device(array):
    """What by_cublas asks of an array of CuPy's."""
    like = {name: getattr(array, name) for name in ("shape", "strides", "itemsize", "dtype", "ndim")}
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
    by_cublas(*map(on_device, (a, b, out)))
    np.testing.assert_allclose(out, right, rtol=1e-5, atol=1e-5)
    out[...] = 7
    by_cublas(*map(on_device, (a[0], b[0], out[0])))
    np.testing.assert_allclose(out[0], right[0], rtol=1e-5, atol=1e-5)
