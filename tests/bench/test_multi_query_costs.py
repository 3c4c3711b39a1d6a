"""The counts of the multi-query paper's performance analyses: those of its listings, and of the orders it prints."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minidecode.bench.multi_query_costs import (
    EINSUMS,
    PAPER_RATIOS,
    cost_of_listing,
    cost_of_n_positions,
)
from minidecode.reference import listings
from minidecode.reference.common.softmax import softmax

SIZES = {"b": 2, "n": 3, "m": 5, "d": 7, "h": 11, "k": 13, "v": 17}  # so that no product stands for another
WEIGHTS = {"P_q": "hdk", "P_k": "hdk", "P_v": "hdv", "P_o": "hdv"}


def arguments(listing):
    """Arrays of the shapes that the listing asks for; an incremental one gets a cache of m - 1 positions."""
    shapes = dict(WEIGHTS)
    if "multiquery" in listing:
        shapes |= {"P_k": "dk", "P_v": "dv"}
    if listing.endswith("_batched"):
        shapes = {"X": "bnd", "M": "bmd", "mask": "bhnm"} | shapes
    else:
        head = "" if "multiquery" in listing else "h"
        shapes = {"x": "bd", "prev_K": f"b{head}mk", "prev_V": f"b{head}mv"} | shapes
    sizes = SIZES | ({"m": SIZES["m"] - 1} if "prev_K" in shapes else {})
    return {name: np.ones([sizes[letter] for letter in letters]) for name, letters in shapes.items()}


@pytest.mark.parametrize("listing", EINSUMS)
def test_the_counts_are_those_of_the_einsums_that_run(listing, monkeypatch):
    """The listing itself says what it computes: each einsum is recorded, with the arrays that it had in hand."""
    equations, operations, arrays, einsum = [], [], {}, np.einsum

    def recorded(equation, *inputs):
        result = einsum(equation, *inputs)
        sizes = {}
        for letters, array in zip(re.split("->|,", equation), [*inputs, result], strict=True):
            sizes |= dict(zip(letters, array.shape, strict=True))
            arrays[id(array)] = array  # kept, so that no other array gets its identity
        equations.append(equation)
        operations.append(2 * math.prod(sizes.values()))
        return result

    monkeypatch.setattr(np, "einsum", recorded)
    monkeypatch.setattr(listings, "softmax", lambda scores: softmax(scores.copy()))  # weights: a tensor of their own
    getattr(listings, listing)(**arguments(listing))
    counted = [re.sub(r"\w+\[(\w+)\] = \w+\[(\w+)\] \w+\[(\w+)\]", r"\2,\3->\1", line) for line in EINSUMS[listing]]
    assert counted == equations
    found = cost_of_listing(listing, number_bytes=1, **SIZES)
    assert (found.bytes, found.operations) == (sum(a.size for a in arrays.values()), sum(operations))
    assert cost_of_listing(listing, **SIZES).bytes == 4 * found.bytes


@pytest.mark.parametrize("step", ["attention_batched", "self_attention_incremental"])
def test_the_letter_h_is_removed_and_nothing_else(step):
    """Section 3: from K, V, P_k and P_v (and what is appended to K and V)."""
    shared = r"\b(P_k|P_v|K|V|new_K|new_V|key|value)\[(\w*)h(\w*)\]"
    removed = tuple(re.sub(shared, r"\1[\2\3]", line) for line in EINSUMS[f"multihead_{step}"])
    assert removed == EINSUMS[f"multiquery_{step}"]


@st.composite
def sizes(draw, most_heads_per_width=None):
    """b, n, d and h under the assumptions of section 2.3.1: k = v = d/h, and n <= d."""
    k, h = draw(st.integers(1, 64)), draw(st.integers(1, 64))
    if most_heads_per_width:
        h = min(h, most_heads_per_width * k)
    return {"b": draw(st.integers(1, 300)), "n": draw(st.integers(1, min(h * k, 200))), "d": h * k, "h": h}


@given(sizes())
def test_the_sums_over_n_positions(size):
    """Worked out by hand. The sum of the lengths 1 to n of the cache is n (n + 1) / 2."""
    b, n, d, h = size.values()
    k = d // h
    expected = {
        "multihead_attention_batched": (7 * b * n * d + 2 * b * h * n * n + 4 * d * d,
                                        8 * b * n * d * d + 4 * b * n * n * d),
        "multihead_self_attention_incremental": (6 * b * n * d + b * (d + h) * n * (n + 1) + 4 * n * d * d,
                                                 8 * b * n * d * d + 2 * b * d * n * (n + 1)),
        "multiquery_attention_batched": (5 * b * n * d + 2 * b * n * k + 2 * b * h * n * n + 2 * d * d + 2 * d * k,
                                         4 * b * n * d * d + 4 * b * n * d * k + 4 * b * n * n * d),
        "multiquery_self_attention_incremental": (
            4 * b * n * d + 2 * b * n * k + b * (k + h) * n * (n + 1) + n * (2 * d * d + 2 * d * k),
            4 * b * n * d * d + 4 * b * n * d * k + 2 * b * d * n * (n + 1)),
    }  # fmt: skip
    for listing, (numbers, operations) in expected.items():
        c = cost_of_n_positions(listing, **size, number_bytes=1)
        assert (c.bytes, c.operations) == (numbers, operations), listing


def over_paper(listing, size):
    c = cost_of_n_positions(listing, **size, number_bytes=1)
    return c.bytes / c.operations / PAPER_RATIOS[listing](**size)


@given(sizes())
def test_the_ratio_of_batched_multi_head(size):
    """O(1/k + 1/(bn)): at most 7/d + 2/k + 4/(bn) over 8, and d >= k. The 1/k is reached where n = d."""
    assert over_paper("multihead_attention_batched", size) <= 9 / 8
    longest = size | {"n": size["d"]}
    assert over_paper("multihead_attention_batched", longest) >= 2 / 12


@given(sizes())
def test_the_ratio_of_incremental_multi_head(size):
    """Theta(n/d + 1/b): numbers are 1 to 10 times n/d and 4/b, operations 8 to 12, in units of b n d^2."""
    assert 1 / 12 <= over_paper("multihead_self_attention_incremental", size) <= 10 / 8


@given(sizes(most_heads_per_width=1))
def test_the_ratio_of_incremental_multi_query(size):
    """Theta(1/d + n/(dh) + 1/b) where h <= k: numbers are 1 to 6 times it, operations 4 to 12."""
    assert 1 / 12 <= over_paper("multiquery_self_attention_incremental", size) <= 6 / 4


def test_the_erratum_of_section_3_1():
    """With many narrow heads the logits and weights, which the paper leaves out, are nearly all that is moved."""
    size = {"b": 1024, "n": 512, "d": 512, "h": 512}
    assert over_paper("multiquery_self_attention_incremental", size) > 30
    c = cost_of_n_positions("multiquery_self_attention_incremental", **size, number_bytes=1)
    logits_and_weights = 1024 * 512 * 512 * 513
    assert logits_and_weights > 0.95 * c.bytes


def test_the_erratum_of_section_2_4_1():
    """K of the last step, b h m k numbers with m = n and h k = d, has b n d of them, not b n^2."""
    b, n, d, h = 2, 3, 20, 5
    x, prev, P = np.ones((b, d)), np.ones((b, h, n - 1, d // h)), np.ones((h, d, d // h))
    _, K, _ = listings.multihead_self_attention_incremental(x, prev, prev, P, P, P, P)
    assert K.size == b * n * d


def test_sharing_keys_and_values_pays_h_times_where_they_are_all_that_matters():
    """With a large batch and a long cache of wide heads, multi-query moves little more than an h-th."""
    size = {"b": 4096, "n": 1024, "d": 1024, "h": 8}
    heads, query = (
        cost_of_n_positions(f"multi{kind}_self_attention_incremental", **size) for kind in ("head", "query")
    )
    assert 6 < heads.bytes / query.bytes < 8
