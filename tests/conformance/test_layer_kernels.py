"""What is between the products of an attention layer: fused and in steps, on views, on empty sentences; and counted."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from minidecode.bench.compare import implementations
from minidecode.cache.no_cache import NoCache
from minidecode.cache.split import SplitCache
from minidecode.catalog import CATALOG
from minidecode.conformance.attention import draw_normal_array
from minidecode.conformance.rows import append as append_rows
from minidecode.conformance.rows import row_module
from minidecode.cuda import append as append_kernels
from minidecode.cuda import heads as heads_kernels
from minidecode.cuda import prefill
from minidecode.device.arrays import put
from minidecode.device.launch import InEmulator, counted_launches, launch
from minidecode.device.low_precision import cast_for_cache
from minidecode.device.matmul import PRODUCT
from minidecode.ops import Heads, Weight
from minidecode.reference import heads as heads_reference
from minidecode.reference.heads import cut_heads


def every(*names):
    """All implementations of these rows; kernels in the emulator."""
    return [
        pytest.param(name, InEmulator(f) if label.startswith("cuda") else f, id=f"{name}-{label.replace(' ', '-')}")
        for name in names
        for label, f in implementations(CATALOG[name]).items()
    ]


@pytest.mark.parametrize(("name", "function"), every("heads", "append"))
def test_a_product_may_be_some_columns_of_a_wider_one(name, function):
    """As where the products of several layers lie side by side: what is beside it is neither read nor written."""
    qkv_RX, *others = row_module(name).planted_cases()[1]
    wide_RX = np.full((len(qkv_RX), qkv_RX.shape[1] + 5), np.nan, np.float32)
    view_RX = wide_RX[:, 3:-2]
    view_RX[...] = qkv_RX
    before = wide_RX.copy()
    expected = row_module(name).oracle(qkv_RX, *copy.deepcopy(others))
    result = function(view_RX, *others)
    results = (*(result if isinstance(result, tuple) else (result,)), *others[2:4])  # and the caches, if there are
    assert all(np.array_equal(r, e) for r, e in zip(results, expected, strict=True))
    assert np.array_equal(wide_RX, before, equal_nan=True)


@pytest.mark.parametrize(("name", "function"), every("heads"))
def test_parts_may_stay_where_they_are(name, function):
    """`out` may be the product itself: each number is read by whoever writes it, and by nobody else."""
    qkv_RX, bias_X, heads = copy.deepcopy(row_module(name).planted_cases()[4])
    expected = row_module(name).oracle(qkv_RX, bias_X, heads)
    results = function(qkv_RX, bias_X, heads, out=cut_heads(qkv_RX, heads))
    assert all(
        np.array_equal(r, e) and np.shares_memory(r, qkv_RX) for r, e in zip(results, expected, strict=True) if e.size
    )


@pytest.mark.parametrize(("name", "function"), every("prefill"))
def test_a_softmax_over_nothing_is_refused(name, function):
    q_RHK, k_XGK = (
        draw_normal_array(np.random.default_rng(0), 5, 2, 4),
        draw_normal_array(np.random.default_rng(1), 2, 2, 4),
    )
    with pytest.raises(ValueError, match="sentence 1 has queries and no keys"):
        function(q_RHK, k_XGK, k_XGK, np.array([0, 2, 5]), np.array([0, 2, 2]), 0.5, False)


@pytest.mark.parametrize(("name", "function"), every("prefill"))
def test_scores_near_the_lowest_number_are_scores(name, function):
    """Masks of other programs add the lowest number to what is not to be seen."""
    q_RHK, k_XGK = np.ones((5, 1, 1), np.float32), np.full((4, 1, 1), np.finfo(np.float32).min)
    v_XGU = np.arange(8, dtype=np.float32).reshape(4, 1, 2)
    a_RX = function(q_RHK, k_XGK, v_XGU, np.array([0, 5]), np.array([0, 4]), 1.0, False)
    np.testing.assert_allclose(a_RX, [[3, 4]] * 5, rtol=1e-6)


@pytest.mark.parametrize(("name", "function"), every("prefill"))
def test_a_sentence_without_queries_changes_nothing(name, function):
    rng = np.random.default_rng(0)
    q_RHK, k_XGK, v_XGU = (
        draw_normal_array(rng, 3, 2, 4),
        draw_normal_array(rng, 5, 1, 4),
        draw_normal_array(rng, 5, 1, 3),
    )
    a_RX = function(q_RHK, k_XGK, v_XGU, np.array([0, 2, 2, 3]), np.array([0, 2, 3, 5]), 0.5, False)
    whole = row_module(name).oracle(q_RHK, k_XGK, v_XGU, np.array([0, 2, 2, 3]), np.array([0, 2, 3, 5]), 0.5, False)
    bound = row_module(name).error_bound(
        q_RHK, k_XGK, v_XGU, np.array([0, 2, 2, 3]), np.array([0, 2, 3, 5]), 0.5, False
    )
    assert (np.abs(a_RX - whole) <= bound).all()


@pytest.mark.parametrize(("name", "function"), every("prefill"))
def test_heads_may_lie_in_front_of_rows(name, function):
    """Queries, keys and values are views: the same numbers in another order of memory give the same answer."""
    arguments = row_module(name).planted_cases()[0]
    views = [np.ascontiguousarray(a.transpose(1, 2, 0)).transpose(2, 0, 1) for a in arguments[:3]]
    a_RX = function(*views, *arguments[3:])
    assert (np.abs(a_RX - row_module(name).oracle(*arguments)) <= row_module(name).error_bound(*arguments)).all()


@pytest.mark.parametrize(
    ("name", "steps"),
    [("heads", {"cuda v1": (4, 0)}), ("append", {"cuda v1": (6, 0)}),
     ("prefill", {"cuda v1": (11, 2), "cuda v2": (2, 2), "cuda v3": (3, 6)})], ids=lambda x: str(x),
)  # fmt: skip
def test_one_kernel_takes_the_place_of_several(name, steps):
    """(kernels, products) of version 1, a kernel for each step, and of the last; version 3 is of three sentences."""
    row = implementations(CATALOG[name])
    for label, due in [*steps.items(), ("cuda", (1, 0))]:
        with counted_launches() as launched:
            InEmulator(row[label])(*copy.deepcopy(row_module(name).planted_cases()[0]))
        products = sum(n for kernel, n in launched.items() if kernel.startswith(PRODUCT))
        assert (sum(launched.values()) - products, products) == due


HALF = np.dtype(np.float16)


@pytest.mark.parametrize(("name", "function"), every("heads"))
@pytest.mark.parametrize("width", [4, 5])
def test_heads_are_rounded_once_and_cut_off(name, function, width):
    rng = np.random.default_rng(0)
    heads, sums = Heads(2, 2, width, width, 1.0), [0, 1e5, -1e5, 65519, 65521, np.nan, np.inf]
    qkv_RX, bias_X = draw_normal_array(rng, 5, 6 * width), draw_normal_array(rng, 6 * width)
    qkv_RX[2, : len(sums)] = sums
    expected = heads_reference.split_heads(qkv_RX, bias_X, heads)
    results = function(qkv_RX, bias_X, heads, HALF)
    for mine, right in zip(results, expected, strict=True):
        assert mine.dtype == HALF and np.array_equal(mine, cast_for_cache(HALF, right), equal_nan=True)


@pytest.mark.parametrize(("name", "function"), every("cross_kv"))
@pytest.mark.parametrize("width", [4, 5])
def test_a_source_is_rounded_once_and_cut_off(name, function, width):
    rng, heads = np.random.default_rng(0), Heads(2, 2, width, width, 1.0)
    weight = Weight(np.eye(8 * width, dtype=np.float32), bias=draw_normal_array(rng, 8 * width), layout="oi")
    h_RD = draw_normal_array(rng, 3, 8 * width)
    h_RD[1, 2] = 1e6
    expected = function(h_RD, weight, heads)
    for mine, right in zip(function(h_RD, weight, heads, HALF), expected, strict=True):
        assert mine.dtype == HALF and np.array_equal(mine, cast_for_cache(HALF, right))


@pytest.mark.parametrize("case", [0, 1, 3, 15, 16, 17, 18, 19, 20, 25])
def test_long_sentences_go_block_by_block(case, monkeypatch):
    """Causal ones with a window, groups of heads, biases for each row: in blocks of few queries."""
    monkeypatch.setattr(prefill, "SCORES", 300)
    monkeypatch.setattr(prefill, "CAUSAL_ROWS", 7)
    arguments = row_module("prefill").planted_cases()[case]
    with counted_launches() as launched:
        a_RX = InEmulator(prefill.attend_prefill_v3)(*arguments)
    assert (
        np.abs(a_RX - row_module("prefill").oracle(*arguments)) <= row_module("prefill").error_bound(*arguments)
    ).all()
    assert launched["softmax_kept (emulator)"] > (len(arguments[3]) - 1) * (case in (3, 15, 17, 25))


@pytest.mark.parametrize("M", [300, 1500, 4200])
@pytest.mark.parametrize("weights_are", [np.float32, np.float16])
def test_long_rows_of_scores_take_other_kernels(M, weights_are):
    """Two causal queries at the end of their keys; what belongs to no key may be anything, and stays."""
    rng, width = np.random.default_rng(0), M + 8 - M % 8
    scores_HNX = draw_normal_array(rng, 1, 2, width)
    scores_HNX[..., M:] = np.nan
    seen = np.where(np.arange(M) <= np.arange(M - 2, M)[:, None], scores_HNX[..., :M].astype(np.float64), -np.inf)
    expected = np.exp(0.5 * seen - 0.5 * seen.max(axis=-1, keepdims=True))
    expected /= expected.sum(axis=-1, keepdims=True)
    scores_X = scores_HNX.reshape(-1)
    weights_X = np.zeros_like(scores_X, weights_are)
    kernel, rows = prefill.choose_softmax_kernel(M)
    rtol = 2e-6 if weights_are == np.float32 else 2.0**-10
    shape, no_bias = map(np.int32, (2, 2, M, width)), (scores_HNX[:0], np.zeros(1, np.int64), 0)
    sight = True, np.int32(M - 2), np.int32(M), np.float32(0.5)
    InEmulator(launch)(kernel, -(-2 // rows), 128, weights_X, scores_X, *shape, *sight, *no_bias)
    np.testing.assert_allclose(weights_X.reshape(2, width)[:, :M], expected[0], rtol=rtol, atol=2e-7)


def test_on_a_device_prompts_attend_as_weights_or_caches_are_stored():
    """So tensor cores multiply them. On the CPU they attend in float32, and are rounded when they are stored."""
    rng, heads = np.random.default_rng(0), Heads(2, 2, 4, 4, 0.5)
    qkv_RX, offsets_X = draw_normal_array(rng, 3, 24), np.array([0, 3])
    for weights_are, stored_as, kind, due in [
        (np.float32, None, NoCache, np.float32), (np.float16, None, NoCache, np.float16),
        (np.float32, HALF, SplitCache, np.float16), (np.float16, None, SplitCache, np.float32),
    ]:  # fmt: skip
        block = SimpleNamespace(qkv=Weight(np.zeros((24, 8), weights_are), layout="oi"), heads=heads)
        ops = SimpleNamespace(split_heads=cut_as_told)
        on_device = kind(block, put(offsets_X, "emulator"), stored_as, 3).append(ops, put(qkv_RX, "emulator"), None)
        assert on_device.dtype == due
        assert kind(block, offsets_X, stored_as, 3).append(ops, qkv_RX, None).dtype == np.float32


def cut_as_told(qkv_RX, bias_X, heads, dtype=None):
    """The heads alone, in this dtype."""
    return tuple(qkv_RX[:, :8].reshape(3, 2, 4).astype(dtype or np.float32) for _ in range(3))


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("name", ["heads", "append"])
def test_whole_fours_are_moved_in_fours_with_and_without_a_bias(name, has_bias):
    """Llama's product has no bias of its own here: rotation has added it."""
    arguments = append_rows.make_arguments([1, 0, 1, 2, 0], 3, Heads(2, 1, 4, 8, 1.0), bias=has_bias)
    function = {"heads": heads_kernels.split_heads, "append": append_kernels.append_kv}[name]
    with counted_launches() as launches:
        InEmulator(function)(*arguments[: 3 if name == "heads" else None])
    assert list(launches) == [f"add_and_{'cut' if name == 'heads' else 'append'}_fours (emulator)"]


@pytest.mark.parametrize("beside", [4, 3])
def test_a_cache_may_be_a_part_of_a_wider_memory(beside):
    """Fours are moved where they begin at multiples of 16 bytes in the memory itself, and by numbers elsewhere."""
    *given, k_RGMK, v_RGMU, at_R = append_rows.make_arguments([1, 0, 1], 3, Heads(2, 1, 4, 8, 1.0))
    wide_RGMX = np.zeros((*k_RGMK.shape[:3], k_RGMK.shape[3] + beside), np.float32)
    part_RGMK = wide_RGMX[..., beside:]
    part_RGMK[...] = k_RGMK
    with counted_launches() as launches:
        InEmulator(append_kernels.append_kv)(*given, part_RGMK, v_RGMU, at_R)
    assert list(launches) == [f"add_and_append{'_fours' if beside == 4 else ''} (emulator)"]
    InEmulator(append_kernels.append_kv)(*given, k_RGMK, v_RGMU, at_R)
    assert np.array_equal(part_RGMK, k_RGMK) and not wide_RGMX[..., :beside].any()
