"""Caches of float16: what rounding costs, what lies beyond the range, and that nothing but storage is narrow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.attention import attend_row, attend_row_error_bound, cast_caches_to_float16
from minidecode.conformance.rows import row_module
from minidecode.cpu.common.low_precision import cast_all
from minidecode.device.launch import InEmulator
from minidecode.device.low_precision import cast_for_cache, largest_stored_number
from minidecode.reference.append import append_kv
from minidecode.reference.common import attention
from minidecode.reference.move import concat_step

HALF = np.dtype(np.float16)
BY_MEMORY = ["grouped", "shared", "split", "indirect", "rolling"]


def on_cpu(*names):
    return [
        pytest.param(name, function, id=f"{name}-{label.replace(' ', '-')}")
        for name in names
        for label, function in implementations(CATALOG[name]).items()
        if not label.startswith("cuda")
    ]


# ---- one number ------------------------------------------------------------------------------------------------------


@given(st.floats(width=32, allow_nan=False))
def test_a_number_is_rounded_once_to_the_nearest_there_is(x):
    found = float(cast_for_cache(HALF, np.array([x], np.float32))[0])
    inside = min(max(x, -65504.0), 65504.0)
    assert abs(found - inside) <= max(2.0**-11 * abs(inside), 2.0**-25)
    with np.errstate(over="ignore"):
        assert abs(x) >= 65504 or found == np.float16(x)


def test_at_the_end_of_the_range():
    """65,520 is where plain rounding begins to give infinity."""
    x = np.array([65504, 65519, 65520, 1e30, np.inf, -65520, -np.inf, np.nan], np.float32)
    expected = np.array([65504, 65504, 65504, 65504, 65504, -65504, -65504, np.nan], np.float16)
    for given_x in (x, x.astype(np.float64)):
        assert np.array_equal(cast_for_cache(HALF, given_x), expected, equal_nan=True)
    assert cast_for_cache(HALF, expected) is expected and cast_for_cache(None, x) is x, "twice changes nothing"
    assert largest_stored_number(np.float32) == np.inf and largest_stored_number(HALF) == 65504


def test_a_growing_memory_stores_as_one_with_room_does():
    arguments = next(a for a in row_module("append").planted_cases() if a[3].dtype == HALF and np.isnan(a[0]).any())
    qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R = arguments
    new = (qkv_RX + bias_X)[:, heads.H * heads.K :][:, : heads.G * heads.K].reshape(len(at_R), heads.G, heads.K)
    append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R)
    grown = concat_step(k_RGMK, new)
    assert grown.dtype == HALF and (np.abs(grown[:, :, -1]) == 65504).any()
    assert np.array_equal(grown[:, :, -1], k_RGMK[np.arange(len(at_R)), :, at_R], equal_nan=True)


def test_a_block_is_widened_wherever_it_lies():
    rng = np.random.default_rng(0)
    narrow = rng.standard_normal((2, 3, 9, 8)).astype(np.float16)[:, :, 2:7, 1:6]
    wide = np.empty(narrow.shape, np.float32)
    cast_all(wide, narrow)
    assert (wide == narrow).all()


# ---- what rounding a cache costs ------------------------------------------------------------------------------------


def rounding(x, steps=1.0):
    """Half a unit in the last place of float16, at most."""
    return steps * np.maximum(2.0**-11 * np.abs(x), 2.0**-25)


def rounding_bound(q_HK, k_GMK, v_GMU, scale, steps=1.0):
    """How far one row's answer moves at most where each key and value moves by its rounding, in exact arithmetic.

    A score moves by e_m <= scale sum_k |q_k| r(k_mk). So the weight p_m moves by a factor of at most
    f_m = exp(e_m) sum_n p_n exp(e_n), and sum_m p_m v_m by at most
    sum_m ((f_m - 1) p_m |v_m - mean| + f_m p_m r(v_m)): only what lies beside the mean moves it.
    """
    H, moved = len(q_HK), []
    for h, q_K in enumerate(q_HK.astype(np.float64)):
        k_MK, v_MU = (a[h // (H // len(a))].astype(np.float64) for a in (k_GMK, v_GMU))
        e_M = scale * rounding(k_MK, steps) @ np.abs(q_K)
        scores_M = scale * k_MK @ q_K
        p_M = np.exp(scores_M - scores_M.max())
        p_M /= p_M.sum()
        f_M = np.exp(e_M) * (p_M @ np.exp(e_M))
        moved.append(((f_M - 1) * p_M) @ np.abs(v_MU - p_M @ v_MU) + (f_M * p_M) @ rounding(v_MU, steps))
    return np.concatenate(moved)


def cache_case(seed, R, M, G, per_group, K, U):
    """A row of `grouped` with nothing hidden: (arguments, rows for the oracle)."""
    rng = np.random.default_rng(seed)
    q, k, v = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((R, G * per_group, K), (R, G, M, K), (R, G, M, U))
    )
    return (q, k, v, np.zeros(R, np.int64), np.full(R, M), K**-0.5), [(q[r], k[r], v[r], K**-0.5) for r in range(R)]


@pytest.mark.parametrize(("name", "attend"), on_cpu("grouped"))
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), R=st.integers(1, 3), M=st.integers(1, 60), G=st.integers(1, 2),
       per_group=st.integers(1, 3), K=st.integers(1, 33), U=st.integers(1, 9))  # fmt: skip
def test_an_answer_is_off_by_the_rounding_of_the_memory_and_no_more(name, attend, seed, R, M, G, per_group, K, U):
    arguments, rows = cache_case(seed, R, M, G, per_group, K, U)
    a_RX = attend(*cast_caches_to_float16(arguments))
    for a_X, row in zip(a_RX, rows, strict=True):
        assert (np.abs(a_X - attend_row(*row)) <= rounding_bound(*row) + attend_row_error_bound(*row)).all()


@pytest.mark.parametrize(("name", "attend"), on_cpu("grouped"))
def test_the_bound_of_rounding_means_something(name, attend):
    """It is the cache's rounding that is seen, and not float32's; bfloat16's, eight times as coarse, breaks it."""
    arguments, rows = cache_case(1, 4, 3, 1, 2, 2, 4)
    off = np.abs(attend(*cast_caches_to_float16(arguments)) - np.stack([attend_row(*row) for row in rows]))
    bound, sums = (np.stack([f(*row) for row in rows]) for f in (rounding_bound, attend_row_error_bound))
    assert (off > sums).mean() > 0.5 and (off <= bound + sums).all() and (8 * off > bound + sums).any()


# ---- nothing but storage is narrow -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "attend"), on_cpu(*BY_MEMORY, "el", "el_split"))
def test_the_planted_cases_in_half_precision(name, attend, monkeypatch):
    """Against the oracle of the rounded numbers, within the bound of float32; whatever the blocks that are widened."""
    row = row_module(name)
    for cached in (attention.CACHED, 40):
        monkeypatch.setattr(attention, "CACHED", cached)
        for arguments in row.planted_cases():
            arguments = cast_caches_to_float16(arguments)
            if name.startswith("el"):
                arguments = arguments[0], cast_for_cache(HALF, arguments[1]), *arguments[2:]
            a_RX = attend(*arguments)
            assert a_RX.dtype == np.float32
            assert (np.abs(a_RX - row.oracle(*arguments)) <= row.error_bound(*arguments)).all()


@pytest.mark.parametrize("name", ["el", "el_split"])
def test_els_kernels_read_halves_and_compute_in_float32(name):
    row = row_module(name)
    for label, function in implementations(CATALOG[name]).items():
        if label.startswith("cuda"):
            for arguments in row.planted_cases()[:4]:
                arguments = cast_caches_to_float16(arguments)
                arguments = arguments[0], cast_for_cache(HALF, arguments[1]), *arguments[2:]
                a_RX = InEmulator(function)(*arguments)
                assert a_RX.dtype == np.float32
                assert (np.abs(a_RX - row.oracle(*arguments)) <= row.error_bound(*arguments)).all()


@pytest.mark.parametrize(("name", "attend"), on_cpu(*BY_MEMORY))
def test_double_precision_reads_halves_too(name, attend):
    """float64 queries: products and sums are float64."""
    for arguments in row_module(name).planted_cases()[:4]:
        wide = arguments[0].astype(np.float64), *arguments[1:]
        a_RX = attend(*cast_caches_to_float16(wide))
        assert a_RX.dtype == np.float64
        np.testing.assert_allclose(
            a_RX, row_module(name).oracle(*cast_caches_to_float16(arguments)), rtol=1e-12, atol=1e-13
        )


def test_the_reference_widens_by_blocks(monkeypatch):
    """All of a cache, each number once, and never more of it than fits in the cache."""
    monkeypatch.setattr(attention, "CACHED", 64)
    blocks, right = [], attention.float_blocks

    def recorded(*arguments):
        for x, m, wide in right(*arguments):
            blocks.append(wide.size)
            yield x, m, wide

    monkeypatch.setattr(attention, "float_blocks", recorded)
    for M in (1, 5, 50):
        blocks.clear()
        arguments = cast_caches_to_float16(cache_case(0, 3, M, 2, 1, 8, 3)[0])
        implementations(CATALOG["grouped"])["reference"](*arguments)
        assert sum(blocks) == arguments[1].size + arguments[2].size and max(blocks) <= 64
    blocks.clear()
    implementations(CATALOG["grouped"])["reference"](*cache_case(0, 3, 5, 2, 1, 8, 3)[0])
    assert not blocks, "float32 is read as it is"


@pytest.mark.parametrize("name", BY_MEMORY)
def test_the_cost_model_counts_halves_as_halves(name):
    """Bytes of keys and values halve; those of queries, results and tables stay."""
    cost = CATALOG[name].cost
    arguments = row_module(name).planted_cases()[0]
    wide, narrow = cost(*arguments), cost(*cast_caches_to_float16(arguments))
    (R, H, K), U = arguments[0].shape, arguments[2].shape[3]
    table = 0
    if name == "indirect":
        table = int((arguments[8] - arguments[7]).sum()) * 8
    rest = R * H * (K + U) * 4 + table
    assert narrow.operations == wide.operations and 2 * (narrow.bytes - rest) == wide.bytes - rest
