"""Attention by parts: pieces of a cache give partial results, which merge to what one softmax over all gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import row_module
from minidecode.device.low_precision import map_arrays
from minidecode.reference.grouped import attend
from minidecode.reference.split import attend_split_merged, merge_partials, partial_attention

IN_DOUBLE = [
    pytest.param(name, function, id=f"{name}-{label.replace(' ', '-')}")
    for name in ("grouped", "shared", "split")
    for label, function in implementations(CATALOG[name]).items()
    if not label.startswith("cuda")
]


@pytest.mark.parametrize(("name", "function"), IN_DOUBLE)
def test_in_double_precision_too(name, function):
    """The bound is one of roundings: in float64 it is 2**29 times as narrow, and the oracle has as much to err."""
    for arguments in row_module(name).planted_cases():
        wide = map_arrays(arguments, lambda a: a.astype(np.float64) if a.ndim > 1 else a)
        a_RX = function(*wide)
        assert a_RX.dtype == np.float64
        assert (
            np.abs(a_RX - row_module(name).oracle(*wide)) <= 2 * 2.0**-29 * row_module(name).error_bound(*wide)
        ).all()


@pytest.mark.parametrize("piece", [1, 2, 31, 33, 1000])
def test_pieces_of_any_size(piece):
    """Down to one position, whose softmax is 1; many of them show some rows nothing."""
    row = row_module("split")
    for arguments in row.planted_cases():
        a_RX = attend_split_merged(*arguments, piece=piece)
        assert (np.abs(a_RX - row.oracle(*arguments)) <= row.error_bound(*arguments)).all()


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 5), min_size=1, max_size=4), st.booleans())
def test_partials_merge_in_any_order(seed, sizes, is_shared):
    """Parts of no position at all too; the last has three."""
    rng = np.random.default_rng(seed)
    sizes, X = [*sizes, 3], 2 if is_shared else 4
    q_RHK = rng.standard_normal((4, 2, 3))
    caches = [(rng.standard_normal((X, 1, M, 3)), rng.standard_normal((X, 1, M, 5))) for M in sizes]
    partials = [partial_attention(q_RHK, k, v, np.zeros(X, int), np.full(X, k.shape[2]), 0.7) for k, v in caches]
    k_XGMK, v_XGMU = (np.concatenate(parts, axis=2).repeat(4 // X, axis=0) for parts in zip(*caches, strict=True))
    whole = attend(q_RHK, k_XGMK, v_XGMU, np.zeros(4, int), np.full(4, sum(sizes)), 0.7)
    for order in (partials, partials[::-1]):
        np.testing.assert_allclose(merge_partials(order).reshape(4, -1), whole, rtol=1e-12, atol=1e-12)


def test_a_part_of_which_nothing_is_seen_counts_for_nothing():
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((1, 1, 3)), rng.standard_normal((1, 1, 4, 3)), rng.standard_normal((1, 1, 4, 2))
    empty, whole = (partial_attention(q, k, v, np.array([begin]), np.array([4]), 1.0) for begin in (4, 0))
    assert np.isneginf(empty[1]).all() and not empty[0].any() and not empty[2].any()
    assert np.array_equal(merge_partials([empty, whole]), merge_partials([whole]))
