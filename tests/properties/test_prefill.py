"""Attention inside prompts, compiled: blocks of queries meet all keys that they see, and no others."""

import numpy as np
import pytest

from minidecode.cpu.common.tile import FLOAT
from minidecode.cpu.prefill import QUERIES, _attend_by_blas, attend_prefill
from minidecode.reference.prefill import attend_prefill_naive

SCALE = 0.3


def inputs(lengths, heads=4, groups=2):
    rng, R = np.random.default_rng(len(lengths) + sum(lengths)), sum(lengths)
    shapes = [(R, heads, 8), (R, groups, 8), (R, groups, 5)]
    offsets_X = np.cumsum([0, *lengths])
    return *(rng.standard_normal(shape).astype(np.float32) for shape in shapes), offsets_X, offsets_X, SCALE


@pytest.mark.parametrize("window", [None, 1, 7, QUERIES, QUERIES + 1, 3 * QUERIES, 2000])
@pytest.mark.parametrize("lengths", [[1], [QUERIES - 1, QUERIES], [QUERIES + 1, 0, 3], [2 * QUERIES, 150], [1100]])
@pytest.mark.parametrize("causal", [True, False])
def test_blocks_are_the_whole(lengths, window, causal):
    """Bound: weights of float32 products of 8 normal numbers, off by some 20 roundings each, of values below 6."""
    *numbers, q_offsets_X, k_offsets_X, scale = inputs(lengths)
    doubled = (x.astype(np.float64) for x in numbers)
    exact = attend_prefill_naive(*doubled, q_offsets_X, k_offsets_X, scale, causal, window)
    compiled = attend_prefill(*numbers, q_offsets_X, k_offsets_X, scale, causal, window)
    np.testing.assert_allclose(compiled, exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("window", [None, 1, 7, QUERIES + 1, 150])
@pytest.mark.parametrize("attend", [attend_prefill, _attend_by_blas])
def test_the_last_part_of_a_text_is_the_end_of_the_whole(attend, window):
    """Each row of a part, behind keys of earlier ones, has what it has where the whole text is computed."""
    lengths, parts = [5, 200, 40], [5, 2 * QUERIES + 6, 1]
    *numbers, offsets_X, _, scale = inputs(lengths)
    doubled = (x.astype(np.float64) for x in numbers)
    whole = attend_prefill_naive(*doubled, offsets_X, offsets_X, scale, True, window)
    rows = np.concatenate([np.arange(end - part, end) for part, end in zip(parts, offsets_X[1:], strict=True)])
    q_RHK, k_XGK, v_XGU = numbers
    arguments = q_RHK[rows], k_XGK, v_XGU, np.cumsum([0, *parts]), offsets_X, scale, True, window
    found = attend(*arguments, *((None, None) if attend is _attend_by_blas else ()))
    np.testing.assert_allclose(found, whole[rows], rtol=0, atol=1e-5)


def test_results_go_where_the_caller_wants_them():
    expected, out = attend_prefill(*inputs([50]), True), np.empty((50, 20), np.float32)
    assert np.shares_memory(attend_prefill(*inputs([50]), True, out=out), out)
    assert np.array_equal(out, expected)


def test_what_no_query_of_a_block_sees_is_not_read():
    together = QUERIES if FLOAT is None else FLOAT.rows
    q_RHK, k_XGK, v_XGU, *rest = inputs([3 * together])
    expected = attend_prefill(q_RHK, k_XGK, v_XGU, *rest, True, 2)
    k_XGK[2 * together :] = v_XGU[2 * together :] = np.nan
    k_XGK[: together - 2] = v_XGU[: together - 2] = np.nan
    seen = slice(together, 2 * together)
    assert np.array_equal(attend_prefill(q_RHK, k_XGK, v_XGU, *rest, True, 2)[seen], expected[seen])
