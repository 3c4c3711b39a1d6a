"""What is between the products of an attention layer: fused and in steps, on views, on empty sentences; and counted."""

import copy

import numpy as np
import pytest

from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.attention import normal
from minidecode.conformance.rows import asked_of
from minidecode.reference.heads import cut
from minidecode.runtime.launch import InEmulator, counted_launches
from minidecode.runtime.products import PRODUCT


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
    qkv_RX, *others = asked_of(name).planted()[1]
    wide_RX = np.full((len(qkv_RX), qkv_RX.shape[1] + 5), np.nan, np.float32)
    view_RX = wide_RX[:, 3:-2]
    view_RX[...] = qkv_RX
    before = wide_RX.copy()
    expected = asked_of(name).oracle(qkv_RX, *copy.deepcopy(others))
    result = function(view_RX, *others)
    results = (*(result if isinstance(result, tuple) else (result,)), *others[2:4])  # and the caches, if there are
    assert all(np.array_equal(r, e) for r, e in zip(results, expected, strict=True))
    assert np.array_equal(wide_RX, before, equal_nan=True)


@pytest.mark.parametrize(("name", "function"), every("heads"))
def test_parts_may_stay_where_they_are(name, function):
    """`out` may be the product itself: each number is read by whoever writes it, and by nobody else."""
    qkv_RX, bias_X, heads = copy.deepcopy(asked_of(name).planted()[4])
    expected = asked_of(name).oracle(qkv_RX, bias_X, heads)
    results = function(qkv_RX, bias_X, heads, out=cut(qkv_RX, heads))
    assert all(
        np.array_equal(r, e) and np.shares_memory(r, qkv_RX) for r, e in zip(results, expected, strict=True) if e.size
    )


@pytest.mark.parametrize(("name", "function"), every("prefill"))
def test_a_softmax_over_nothing_is_refused(name, function):
    q_RHK, k_XGK = normal(np.random.default_rng(0), 3, 2, 4), normal(np.random.default_rng(1), 2, 2, 4)
    with pytest.raises(ValueError, match="sentence 1 has queries and no keys"):
        function(q_RHK, k_XGK, k_XGK, np.array([0, 2, 3]), np.array([0, 2, 2]), 0.5, False)


@pytest.mark.parametrize(("name", "function"), every("prefill"))
def test_a_sentence_without_queries_changes_nothing(name, function):
    rng = np.random.default_rng(0)
    q_RHK, k_XGK, v_XGU = normal(rng, 3, 2, 4), normal(rng, 5, 1, 4), normal(rng, 5, 1, 3)
    a_RX = function(q_RHK, k_XGK, v_XGU, np.array([0, 2, 2, 3]), np.array([0, 2, 3, 5]), 0.5, False)
    whole = asked_of(name).oracle(q_RHK, k_XGK, v_XGU, np.array([0, 2, 2, 3]), np.array([0, 2, 3, 5]), 0.5, False)
    bound = asked_of(name).bound(q_RHK, k_XGK, v_XGU, np.array([0, 2, 2, 3]), np.array([0, 2, 3, 5]), 0.5, False)
    assert (np.abs(a_RX - whole) <= bound).all()


@pytest.mark.parametrize(("name", "function"), every("prefill"))
def test_heads_may_lie_in_front_of_rows(name, function):
    """Queries, keys and values are views: the same numbers in another order of memory give the same answer."""
    arguments = asked_of(name).planted()[0]
    views = [np.ascontiguousarray(a.transpose(1, 2, 0)).transpose(2, 0, 1) for a in arguments[:3]]
    a_RX = function(*views, *arguments[3:])
    assert (np.abs(a_RX - asked_of(name).oracle(*arguments)) <= asked_of(name).bound(*arguments)).all()


@pytest.mark.parametrize(
    ("name", "steps"), [("heads", (4, 0)), ("append", (6, 0)), ("prefill", (11, 2))], ids=lambda x: str(x)
)
def test_one_kernel_takes_the_place_of_several(name, steps):
    """(kernels, products) of version 1, a kernel for each step, and of the last."""
    row = implementations(CATALOG[name])
    for label, due in [("cuda v1", steps), ("cuda", (1, 0) if steps[1] == 0 else (2, 2))]:
        with counted_launches() as launched:
            InEmulator(row[label])(*copy.deepcopy(asked_of(name).planted()[0]))
        products = sum(n for kernel, n in launched.items() if kernel.startswith(PRODUCT))
        assert (sum(launched.values()) - products, products) == due
