"""Every reference op against a float64 oracle, within a bound computed from the dtype and the numbers summed.

`eps` below is float32's: 2**-24 relative for one rounding. A sum of n products drifts like a random walk, so its
bound grows with sqrt(n), times the length of the vector of products. `test_the_bounds_mean_something` shows that no
bound is wider than 32 times what is observed, and that small mistakes break it.
"""

import copy
import inspect
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import oracles
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minidecode import dims, ops, reference
from minidecode.conformance.attention import attend_row, attend_row_error_bound
from minidecode.conformance.bounds import EPS
from minidecode.conformance.rows import beam_update as beam_update_row
from minidecode.conformance.rows import el as el_row
from minidecode.conformance.rows import el_split as el_split_row
from minidecode.conformance.rows import finished as finished_row
from minidecode.conformance.rows import norm as norm_row
from minidecode.conformance.rows import reorder as reorder_row
from minidecode.conformance.rows.norm import layer_norm_oracle
from minidecode.cpu import activation as cpu_activation
from minidecode.device.low_precision import quantize_weight, stored_weight
from minidecode.ops import Heads, Norm, Weight
from minidecode.plan import functions_of_backend
from minidecode.reference import candidates
from minidecode.reference.activation import ACTIVATIONS
from minidecode.reference.grouped import attend_naive
from minidecode.reference.norm import layer_norm, layer_norm_naive
from minidecode.reference.reorder import copies_in_order as reorder_copies
from minidecode.reference.shared import attend_shared_naive
from minidecode.reference.softmax import token_logprobs_naive
from minidecode.reference.split import attend_split_merged, attend_split_naive
from minidecode.search import dry_run

OPS = {
    name: dims.with_checked_shapes(f, ops.RETURNS.get(name, ())) for name, f in functions_of_backend(reference).items()
}
LAYER_NORMS = [layer_norm_naive, layer_norm]
sizes = st.integers(1, 40)
seeds = st.integers(0, 2**32 - 1)


def normal(rng, *shape, plant=True):
    """Float32 normals; with `plant`, also an outlier of 1e3 and a row of equal values, where bugs hide."""
    x = rng.standard_normal(shape).astype(np.float32)
    if plant and x.ndim == 2 and x.shape[0] > 2:
        x[0, rng.integers(x.shape[1])] = 1e3
        x[1] = 0.1
    return x


def linear_bound(x, w):
    x, w = np.abs(x).astype(np.float64), np.abs(w).astype(np.float64)
    return 4 * EPS * math.sqrt(x.shape[1]) * np.sqrt(x**2 @ w**2) + EPS * (x @ w) + 1e-44


def softmax_bound(logits):
    reach = np.ptp(logits.astype(np.float64), axis=1, keepdims=True)
    return 2 * EPS * (reach + math.log(logits.shape[1]) + 1)


@given(seeds, sizes, sizes, sizes, st.sampled_from([1.0, 2.0, 16.0]))
def test_embed_norm(seed, R, D, V, scale):
    """x is exact for scales that are powers of two: one rounding, that of the sum."""
    rng = np.random.default_rng(seed)
    wte, wpe, ids, pos = normal(rng, V, D), normal(rng, 9, D), rng.integers(V, size=R), rng.integers(9, size=R)
    norm = Norm(normal(rng, D), normal(rng, D), 1e-5)
    expected = oracles.embed(ids, pos, wte, wpe, scale)
    x, h = OPS["embed_norm"](ids, pos, wte, wpe, scale, norm)
    assert (x == expected.astype(np.float32)).all()
    assert (np.abs(h - layer_norm_oracle(x, norm)) <= norm_row.layer_norm_error_bound(x, norm)).all()


@pytest.mark.parametrize("add_bias", [OPS["add_bias"], cpu_activation.add_bias], ids=["reference", "cpu"])
@given(seed=seeds, R=sizes, X=sizes, dtype=st.sampled_from([np.float32, np.float64]), step=st.sampled_from([1, 2]))
@example(seed=0, R=16, X=50_265, dtype=np.float32, step=1)  # BART's scores, whose rows threads share
def test_add_bias(add_bias, seed, R, X, dtype, step):
    rng = np.random.default_rng(seed)
    x, bias = normal(rng, R, step * X).astype(dtype)[:, ::step], normal(rng, X).astype(dtype)
    expected, out = x + bias, np.full((R, X), 7, dtype)
    assert np.array_equal(add_bias(x, bias), expected)
    assert add_bias(x, bias, out=out) is out and np.array_equal(out, expected)
    assert add_bias(out, -bias, out=out) is out and np.array_equal(out, expected - bias)


@pytest.mark.parametrize("layer_norm", LAYER_NORMS)
@given(seed=seeds, R=sizes, D=st.integers(1, 300))
@example(seed=0, R=3, D=1)
def test_layer_norm(layer_norm, seed, R, D):
    rng = np.random.default_rng(seed)
    x = normal(rng, R, D) * 10.0 ** rng.integers(-3, 4) + np.float32(rng.integers(-3, 4))
    x = x.astype(np.float32)
    norm = Norm(normal(rng, D), normal(rng, D), 1e-5)
    error = np.abs(layer_norm(x, norm) - layer_norm_oracle(x, norm))
    assert (error <= norm_row.layer_norm_error_bound(x, norm)).all()


@given(seeds, sizes, st.integers(1, 200), sizes, st.sampled_from(["io", "oi"]))
def test_linear(seed, R, n_in, n_out, layout):
    rng = np.random.default_rng(seed)
    x, w = normal(rng, R, n_in), normal(rng, n_in, n_out)
    weight = Weight(w if layout == "io" else np.ascontiguousarray(w.T), layout=layout)
    expected, bound = oracles.linear(x, w), linear_bound(x, w)
    assert (np.abs(OPS["linear"](x, weight) - expected) <= bound).all()
    start = normal(rng, R, n_out)
    target = start.copy()
    assert OPS["linear"](x, weight, target) is target
    assert (np.abs(target - (start + expected)) <= bound + EPS * np.abs(start + expected)).all()


@given(seeds, sizes, st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_split_heads(seed, R, G, per_group, K, U, with_bias):
    rng = np.random.default_rng(seed)
    heads = Heads(G * per_group, G, K, U, 1.0)
    width = heads.H * K + G * K + G * U
    qkv, bias = normal(rng, R, width), normal(rng, width) if with_bias else None
    q, k, v = OPS["split_heads"](qkv, bias, heads)
    assert q.shape == (R, heads.H, K) and k.shape == (R, G, K) and v.shape == (R, G, U)
    side_by_side = np.concatenate([q.reshape(R, -1), k.reshape(R, -1), v.reshape(R, -1)], axis=1)
    assert (side_by_side == (qkv if bias is None else qkv + bias)).all()


def attention_case(seed, lengths, G, per_group, K, U):
    rng = np.random.default_rng(seed)
    R, H = sum(lengths), G * per_group
    q, k, v = normal(rng, R, H, K), normal(rng, R, G, K), normal(rng, R, G, U)
    return q, k, v, np.concatenate([[0], np.cumsum(lengths)])


@settings(max_examples=60)
@given(seeds, st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 3), st.integers(1, 3),
       st.integers(1, 6), st.integers(1, 6))  # fmt: skip
def test_attend_prefill_causal(seed, lengths, G, per_group, K, U):
    q, k, v, offsets = attention_case(seed, lengths, G, per_group, K, U)
    a = OPS["attend_prefill"](q, k, v, offsets, offsets, 0.7, True)
    for first, last in pairwise(offsets):
        for r in range(first, last):
            seen = slice(first, r + 1)
            row = (q[r], k[seen].transpose(1, 0, 2), v[seen].transpose(1, 0, 2), 0.7)
            assert (np.abs(a[r] - attend_row(*row)) <= attend_row_error_bound(*row)).all()


@settings(max_examples=60)
@given(seeds, st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=4), st.integers(1, 3),
       st.integers(1, 3), st.integers(1, 6), st.integers(1, 6))  # fmt: skip
def test_attend_prefill_sources(seed, lengths, G, per_group, K, U):
    """Every row of a target sees the whole of its own source."""
    rng = np.random.default_rng(seed)
    targets, sources = ([n for n, _ in lengths], [m for _, m in lengths])
    q, k, v = (
        normal(rng, sum(targets), G * per_group, K),
        normal(rng, sum(sources), G, K),
        normal(rng, sum(sources), G, U),
    )
    q_offsets, k_offsets = (np.concatenate([[0], np.cumsum(n)]) for n in (targets, sources))
    a = OPS["attend_prefill"](q, k, v, q_offsets, k_offsets, 0.7, False)
    for b in range(len(lengths)):
        seen = slice(k_offsets[b], k_offsets[b + 1])
        for r in range(q_offsets[b], q_offsets[b + 1]):
            row = (q[r], k[seen].transpose(1, 0, 2), v[seen].transpose(1, 0, 2), 0.7)
            assert (np.abs(a[r] - attend_row(*row)) <= attend_row_error_bound(*row)).all()


@pytest.mark.parametrize("attend", [OPS["attend"], dims.with_checked_shapes(attend_naive, "a_RX")])
@settings(max_examples=60)
@given(seed=seeds, R=st.integers(1, 5), M=st.integers(1, 12), G=st.integers(1, 3), per_group=st.integers(1, 3),
       K=st.integers(1, 6), U=st.integers(1, 6))  # fmt: skip
def test_attend(attend, seed, R, M, G, per_group, K, U):
    """The padded positions hold numbers that would show if they were looked at."""
    rng = np.random.default_rng(seed)
    q, k, v = normal(rng, R, G * per_group, K), normal(rng, R, G, M, K), normal(rng, R, G, M, U)
    begin = rng.integers(0, M, size=R)
    poisoned_k, poisoned_v = k.copy(), v.copy()
    for r in range(R):
        poisoned_k[r, :, : begin[r]], poisoned_v[r, :, : begin[r]] = 1e4, 1e4
    end = rng.integers(begin + 1, M + 1)
    for r in range(R):
        poisoned_k[r, :, end[r] :], poisoned_v[r, :, end[r] :] = 1e4, 1e4
    a = attend(q, poisoned_k, poisoned_v, begin, end, 0.7)
    for r in range(R):
        row = (q[r], k[r][:, begin[r] : end[r]], v[r][:, begin[r] : end[r]], 0.7)
        assert (np.abs(a[r] - attend_row(*row)) <= attend_row_error_bound(*row)).all()


@pytest.mark.parametrize("shared", [OPS["attend_shared"], dims.with_checked_shapes(attend_shared_naive, "a_RX")])
@settings(max_examples=60)
@given(seed=seeds, B=st.integers(1, 3), W=st.integers(1, 4), N=st.integers(1, 9), G=st.integers(1, 3),
       per_group=st.integers(1, 3), K=st.integers(1, 5), U=st.integers(1, 5))  # fmt: skip
def test_attend_shared(shared, seed, B, W, N, G, per_group, K, U):
    """Each row sees its own sentence's block alone; padding holds numbers that would show."""
    rng = np.random.default_rng(seed)
    q, k, v = normal(rng, B * W, G * per_group, K), normal(rng, B, G, N, K), normal(rng, B, G, N, U)
    begin = rng.integers(0, N, size=B)
    for b in range(B):
        k[b, :, : begin[b]], v[b, :, : begin[b]] = 1e4, 1e4
    a = shared(q, k, v, begin, 0.7)
    for r in range(B * W):
        b = r // W
        row = (q[r], k[b][:, begin[b] :], v[b][:, begin[b] :], 0.7)
        assert (np.abs(a[r] - attend_row(*row)) <= attend_row_error_bound(*row)).all()


@pytest.mark.parametrize(
    "split",
    [OPS["attend_split"], *(dims.with_checked_shapes(f, "a_RX") for f in (attend_split_naive, attend_split_merged))],
)
@settings(max_examples=80)
@given(seed=seeds, B=st.integers(1, 3), W=st.integers(1, 4), N=st.integers(1, 9), T=st.integers(1, 7),
       G=st.integers(1, 3), per_group=st.integers(1, 3), K=st.integers(1, 5), U=st.integers(1, 5),
       no_prompt=st.booleans())  # fmt: skip
def test_attend_split(split, seed, B, W, N, T, G, per_group, K, U, no_prompt):
    """One softmax over the sentence's prompt and the row's own positions; what is not to be seen is poison."""
    rng = np.random.default_rng(seed)
    R = B * W
    q = normal(rng, R, G * per_group, K)
    prompt_k, prompt_v = normal(rng, B, G, N, K), normal(rng, B, G, N, U)
    k, v = normal(rng, R, G, T, K), normal(rng, R, G, T, U)
    prompt_begin = np.full(B, N) if no_prompt else rng.integers(0, N + 1, size=B)
    begin = rng.integers(0, T, size=R)
    end = rng.integers(begin + 1, T + 1)
    for b in range(B):
        prompt_k[b, :, : prompt_begin[b]], prompt_v[b, :, : prompt_begin[b]] = 1e4, 1e4
    for r in range(R):
        for part in (slice(begin[r]), slice(end[r], None)):
            k[r, :, part], v[r, :, part] = 1e4, 1e4
    a = split(q, prompt_k, prompt_v, prompt_begin, k, v, begin, end, 0.7)
    for r in range(R):
        b, own = r // W, slice(begin[r], end[r])
        seen_k = np.concatenate([prompt_k[b][:, prompt_begin[b] :], k[r][:, own]], axis=1)
        seen_v = np.concatenate([prompt_v[b][:, prompt_begin[b] :], v[r][:, own]], axis=1)
        row = (q[r], seen_k, seen_v, 0.7)
        assert (np.abs(a[r] - attend_row(*row)) <= attend_row_error_bound(*row)).all()


@given(seeds, st.integers(1, 6), st.integers(1, 5), st.integers(1, 2), st.integers(1, 3))
def test_append_kv_then_follow(seed, R, M, G, X):
    rng = np.random.default_rng(seed)
    heads, at = Heads(2 * G, G, X, X + 1, 1.0), rng.integers(M, size=R)
    qkv = normal(rng, R, 2 * G * X + G * (2 * X + 1))
    bias, caches = normal(rng, qkv.shape[1]), [normal(rng, R, G, M, width) for width in (X, X + 1)]
    before = [m.copy() for m in caches]
    q, *new = OPS["split_heads"](qkv, bias, heads)
    assert (OPS["append_kv"](qkv, bias, heads, *caches, at) == q).all()
    for cache, old, rows in zip(caches, before, new, strict=True):
        for r in range(R):
            assert (cache[r, :, at[r]] == rows[r]).all()
            others = np.arange(M) != at[r]
            assert (cache[r][:, others] == old[r][:, others]).all()
    cache = caches[0]
    length, parent = np.full(R, rng.integers(M + 1)), rng.integers(R, size=R)
    expected = reorder_row.oracle(cache, parent, length)
    assert OPS["reorder_cache"](cache, parent, length) is cache
    assert (cache == expected).all()


@given(seeds, st.integers(1, 6), st.integers(1, 7))
@example(0, 2, 3)
def test_redirect(seed, R, T):
    """Place by place, from what was there before; what is not written yet stays the row's own."""
    rng = np.random.default_rng(seed)
    source, length, parent = rng.integers(R, size=(R, T)), np.full(R, rng.integers(T + 1)), rng.integers(R, size=R)
    before = source.copy()
    assert OPS["update_indirection"](source, parent, length) is source
    for r, t in np.ndindex(R, T):
        assert source[r, t] == before[parent[r] if t < length[r] else r, t]


@given(seeds, st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.integers(1, 5))
def test_refreshed_texts_are_those_of_lists(seed, B, W, length, steps):
    """Over several steps, in which sentences stop growing: a list for each text, copied and appended to."""
    rng = np.random.default_rng(seed)
    length_B = rng.integers(0, length + 1, B)
    text_BWM = rng.integers(100, size=(B, W, length + steps))
    texts = [[text_BWM[b, w, : length_B[b]].tolist() for w in range(W)] for b in range(B)]
    for _ in range(steps):
        parent_BW, token_BW = rng.integers(W, size=(B, W)), rng.integers(100, size=(B, W))
        assert OPS["update_sequences"](text_BWM, parent_BW, token_BW, length_B) is text_BWM
        grows_B = rng.random(B) < 0.7
        for b in range(B):
            texts[b] = [texts[b][parent] for parent in parent_BW[b]]
            if grows_B[b]:
                texts[b] = [[*text, token] for text, token in zip(texts[b], token_BW[b].tolist(), strict=True)]
        length_B = length_B + grows_B
        for b, w in np.ndindex(B, W):
            assert text_BWM[b, w, : length_B[b]].tolist() == texts[b][w]


@given(seeds, sizes, st.integers(1, 60), st.booleans())
def test_residual_norm(seed, R, D, with_bias):
    rng = np.random.default_rng(seed)
    x, y = normal(rng, R, D), normal(rng, R, D, plant=False)
    bias, norm = (normal(rng, D) if with_bias else None), Norm(normal(rng, D), normal(rng, D), 1e-5)
    before = x.copy()
    summed, h = OPS["residual_norm"](x, y, bias, norm)
    exact = x.astype(np.float64) + y + (0 if bias is None else bias)
    assert (np.abs(summed - exact) <= 2 * EPS * (np.abs(x) + np.abs(y) + (0 if bias is None else np.abs(bias)))).all()
    assert (np.abs(h - layer_norm_oracle(summed, norm)) <= norm_row.layer_norm_error_bound(summed, norm)).all()
    assert (x == before).all(), "the caller's residual is not overwritten"


@pytest.mark.parametrize("name", [*ACTIVATIONS])
@settings(max_examples=40)
@given(seed=seeds, scale=st.sampled_from([1e-3, 1.0, 30.0, 1e4]))
def test_bias_activation(name, seed, scale):
    rng = np.random.default_rng(seed)
    f, bias = (normal(rng, 3, 17) * np.float32(scale)).astype(np.float32), normal(rng, 17)
    biased = f + bias
    expected = np.vectorize(lambda x: oracles.activation(x, name))(biased)
    error = np.abs(OPS["bias_activation"](f, bias, name) - expected)
    terms = 1.0 if name == "laplace" else np.abs(biased)  # laplace is a sum of halves
    assert (error <= 8 * EPS * np.maximum(terms, np.abs(expected))).all()
    assert np.array_equal(OPS["bias_activation"](f, None, name), OPS["bias_activation"](f, np.zeros_like(bias), name))


@given(seeds, sizes, st.integers(1, 300))
@example(0, 1, 1)
def test_log_softmax(seed, R, V):
    rng = np.random.default_rng(seed)
    logits = normal(rng, R, V)
    assert (np.abs(OPS["log_softmax"](logits)[0] - oracles.log_softmax(logits)) <= softmax_bound(logits)).all()


@pytest.mark.parametrize("score", [OPS["token_logprobs"], dims.with_checked_shapes(token_logprobs_naive, "score_R")])
@given(seed=seeds, R=sizes, V=st.integers(1, 300))
@example(seed=0, R=1, V=1)
def test_token_logprobs(score, seed, R, V):
    rng = np.random.default_rng(seed)
    logits, tokens = normal(rng, R, V), rng.integers(V, size=R)
    before = logits.copy()
    found = score(logits, tokens)
    assert found.dtype == np.float32
    assert (np.abs(found - oracles.token_logprobs(logits, tokens)) <= softmax_bound(logits)[:, 0]).all()
    assert (logits == before).all(), "the caller's logits are not overwritten"


def test_token_logprobs_of_impossible_and_broken_rows():
    """A token ruled out scores -inf; a row that holds NaN, or nothing possible, scores NaN."""
    logits = np.array([[0, -np.inf, 0], [0, np.nan, 0], [-np.inf] * 3], np.float32)
    with np.errstate(all="ignore"):
        for score in (OPS["token_logprobs"], token_logprobs_naive):
            assert np.array_equal(score(logits, np.array([1, 0, 0])), [-np.inf, np.nan, np.nan], equal_nan=True)


def test_token_logprobs_naive_fills_out():
    logits, tokens, out = normal(np.random.default_rng(3), 4, 7), np.array([0, 6, 3, 3]), np.full(4, 77, np.float32)
    assert token_logprobs_naive(logits, tokens, out=out) is out
    assert (out == token_logprobs_naive(logits, tokens)).all()


@given(seeds, st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 4),
       st.none() | st.integers(0, 3))  # fmt: skip
def test_pad_left_then_concat(seed, lengths, G, X, more):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows = normal(rng, sum(lengths), G, X)
    N = max(lengths) + (more or 0)
    padded = OPS["pad_left"](rows, offsets, None if more is None else N)
    new = normal(rng, len(lengths), G, X)
    grown = OPS["concat_step"](padded, new)
    assert padded.shape[2] == N
    for b, n in enumerate(lengths):
        assert (padded[b, :, : N - n] == 0).all()
        assert (padded[b, :, N - n :] == rows[offsets[b] : offsets[b + 1]].transpose(1, 0, 2)).all()
        assert (grown[b, :, :-1] == padded[b]).all() and (grown[b, :, -1] == new[b]).all()


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=5), st.integers(1, 5))
def test_ban_ngrams(histories, n):
    """A vocabulary of three, so that repeats are common; tails beyond each row's length hold other tokens."""
    R, M = len(histories), 14
    tokens = np.full((R, M), 1)
    for r, history in enumerate(histories):
        tokens[r, : len(history)] = history
    scores = np.zeros((R, 4), np.float32)
    result = OPS["ban_ngrams"](scores, tokens, np.array([len(h) for h in histories]), n)
    assert result is scores
    for r, history in enumerate(histories):
        assert set(np.flatnonzero(np.isneginf(scores[r])).tolist()) == oracles.banned(history, n)
        assert set(scores[r].tolist()) <= {0.0, -np.inf}


@pytest.mark.parametrize("version", ["", "_hars", "_partition", "_naive"])
@given(seed=seeds, B=st.integers(1, 3), X=st.integers(1, 30) | st.integers(1, 400), C=st.integers(1, 30),
       distinct=st.sampled_from([1, 3, 40, 10**6]), forbidden=st.sampled_from([0.2, 0.98]))  # fmt: skip
@example(seed=0, B=1, X=128, C=2, distinct=1, forbidden=1.0)
@example(seed=1, B=2, X=2100, C=1100, distinct=40, forbidden=0.2)
def test_top_candidates(version, seed, B, X, C, distinct, forbidden):
    """Against a sort of lists, with many equal scores, rows of -inf, and the best side by side."""
    top = dims.with_checked_shapes(vars(candidates)[f"top_candidates{version}"], ("scores_BC", "index_BC"))
    C = min(C, X)
    rng = np.random.default_rng(seed)
    scores = rng.integers(distinct, size=(B, X)).astype(np.float32)
    scores[rng.random((B, X)) < forbidden] = -np.inf
    begin = rng.integers(X)
    scores[0, begin : begin + C] += distinct
    best, index = top(scores, C)
    for b, row in enumerate(scores.tolist()):
        expected = sorted(range(X), key=lambda x, row=row: (-row[x], x))[:C]
        assert index[b].tolist() == expected and best[b].tolist() == [row[x] for x in expected]


def test_top_candidates_naive_fills_out():
    scores, out = normal(np.random.default_rng(3), 2, 9), (np.full((2, 3), 7, np.float32), np.full((2, 3), 7))
    best, index = candidates.top_candidates_naive(scores, 3, out=out)
    assert best is out[0] and index is out[1]
    assert (best == np.take_along_axis(scores, index, 1)).all() and (index == np.argsort(-scores)[:, :3]).all()


def philox_by_hand(counter, key):
    """Philox4x32-10 in whole numbers, a word at a time, from the definition of Salmon et al. (2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


@given(st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 3), min_size=1, max_size=4), st.integers(1, 11),
       st.integers(0, 2**64 - 1))  # fmt: skip
@example([(0, 0, 0), (2**32 - 1, 2**32 - 1, 2**32 - 1)], 6, 2**64 - 1)
def test_gumbel(rows, V, seed):
    """Number v of a row is word v % 4 of the block v // 4, at the row's step and key; the seed is philox's key."""
    noise = OPS["gumbel"](np.array([row[1:] for row in rows]), np.array([row[0] for row in rows]), V, seed)
    assert noise.shape == (len(rows), V) and noise.dtype == np.float64
    for r, (step, low, high) in enumerate(rows):
        for v in range(V):
            word = philox_by_hand((v // 4, step, low, high), (seed % 2**32, seed >> 32))[v % 4]
            u = (word + 0.5) / 2**32
            expected = -math.log(-math.log(u))
            assert abs(noise[r, v] - expected) <= 4 * 2.0**-53 * (1 + abs(expected))


def test_gumbel_wants_a_step_for_each_key():
    with pytest.raises(ValueError, match="rows of this call"):
        OPS["gumbel"](np.zeros((2, 2), np.int64), np.zeros(3, np.int64), 5, 0)


OUT_CASES = {
    "embed_norm": lambda r: (
        np.array([1, 0]),
        np.array([2, 1]),
        normal(r, 3, 4),
        normal(r, 3, 4),
        3.0,
        Norm(normal(r, 4), normal(r, 4), 0.1),
    ),
    "linear": lambda r: (
        normal(r, 2, 4).astype(np.float32),
        quantize_weight(Weight(normal(r, 4, 3).astype(np.float32))),
    ),
    "linear_epilogue": lambda r: (
        normal(r, 2, 4).astype(np.float32),
        replace(quantize_weight(Weight(normal(r, 4, 3).astype(np.float32))), bias=normal(r, 3)),
        "gelu",
    ),
    "linear_int8": lambda r: (
        normal(r, 2, 4).astype(np.float32),
        stored_weight("int8_dynamic", Weight(normal(r, 4, 3).astype(np.float32))),
        normal(r, 3).astype(np.float32),
        "gelu",
    ),
    "project_cross_kv": lambda r: (
        normal(r, 3, 4).astype(np.float32),
        replace(quantize_weight(Weight(normal(r, 4, 20).astype(np.float32))), bias=normal(r, 20).astype(np.float32)),
        Heads(4, 2, 2, 3, 1.0),
    ),
    "assign_offsets": lambda r: (np.array([100, 64, 7]), np.array([0, 1, 2]), np.array([1, 2, 3])),
    "split_heads": lambda r: (normal(r, 2, 12), normal(r, 12), Heads(2, 2, 2, 2, 1.0)),
    "attend_prefill": lambda r: (
        normal(r, 3, 2, 2),
        normal(r, 5, 1, 2),
        normal(r, 5, 1, 5),
        np.array([0, 1, 3]),
        np.array([0, 3, 5]),
        0.5,
        False,
    ),
    "add_bias": lambda r: (normal(r, 2, 4), normal(r, 4)),
    "attend": lambda r: (
        normal(r, 2, 2, 3),
        normal(r, 2, 1, 4, 3),
        normal(r, 2, 1, 4, 5),
        np.array([0, 1]),
        np.array([4, 2]),
        0.5,
    ),
    "attend_shared": lambda r: (
        normal(r, 4, 2, 3),
        normal(r, 2, 1, 4, 3),
        normal(r, 2, 1, 4, 5),
        np.array([0, 1]),
        0.5,
    ),
    "attend_split": lambda r: (
        normal(r, 4, 2, 3),
        normal(r, 2, 1, 4, 3),
        normal(r, 2, 1, 4, 5),
        np.array([0, 1]),
        normal(r, 4, 1, 6, 3),
        normal(r, 4, 1, 6, 5),
        np.array([0, 0, 1, 1]),
        np.array([2, 2, 2, 6]),
        0.5,
    ),
    "attend_el": lambda r: el_row.make_arguments(3, B=2, W=2, N=3, H=2, G=1, K=2, U=3, D=4),
    "attend_el_split": lambda r: el_split_row.make_arguments(3, B=2, W=2, N=3, H=2, G=1, K=2, U=3, D=4),
    "attend_indirect": lambda r: (
        normal(r, 4, 2, 3),
        normal(r, 2, 1, 4, 3),
        normal(r, 2, 1, 4, 5),
        np.array([0, 1]),
        normal(r, 4, 1, 6, 3),
        normal(r, 4, 1, 6, 5),
        np.array([[1, 0, 0, 0, 0, 0], [1] * 6, [3, 2, 3, 2, 2, 2], [2] * 5 + [3]]),
        np.array([0, 0, 1, 1]),
        np.array([2, 2, 2, 6]),
        0.5,
    ),
    "attend_paged": lambda r: (
        normal(r, 2, 2, 3),
        normal(r, 5, 1, 2, 3),
        normal(r, 5, 1, 2, 5),
        np.array([[3, 0, 4], [3, 1, 2]]),
        np.array([0, 1]),
        np.array([4, 5]),
        0.5,
    ),
    "copy_pages": lambda r: (normal(r, 4, 1, 2, 3), np.array([0, 0, 2]), np.array([1, 0, 3])),
    "append_paged": lambda r: (
        normal(r, 2, 9),
        normal(r, 9),
        Heads(2, 1, 2, 3, 1.0),
        normal(r, 4, 1, 2, 2),
        normal(r, 4, 1, 2, 3),
        np.array([[3, 0], [1, 2]]),
        np.array([1, 2]),
    ),
    "attend_rolling": lambda r: (
        normal(r, 2, 2, 3),
        normal(r, 2, 1, 4, 3),
        normal(r, 2, 1, 4, 5),
        np.array([0, 5]),
        np.array([3, 7]),
        0.5,
    ),
    "update_indirection": lambda r: (
        np.array([[0, 1, 0], [1, 1, 1], [2, 0, 2]]),
        np.array([1, 0, 2]),
        np.array([2, 2, 2]),
    ),
    "update_sequences": lambda r: (
        np.arange(16).reshape(2, 2, 4),
        np.array([[1, 0], [1, 1]]),
        np.array([[5, 6], [7, 8]]),
        np.array([2, 3]),
    ),
    "update_beams": lambda r: beam_update_row.planted_cases()[3],
    "store_finished": lambda r: finished_row.planted_cases()[2],
    "append_kv": lambda r: (
        normal(r, 2, 9),
        normal(r, 9),
        Heads(2, 1, 2, 3, 1.0),
        normal(r, 2, 1, 4, 2),
        normal(r, 2, 1, 4, 3),
        np.array([0, 3]),
    ),
    "reorder_cache": lambda r: (normal(r, 3, 1, 4, 3), np.array([2, 1, 1]), np.array([4, 4, 4])),
    "residual_norm": lambda r: (normal(r, 2, 4), normal(r, 2, 4), normal(r, 4), Norm(normal(r, 4), normal(r, 4), 0.1)),
    "bias_activation": lambda r: (normal(r, 2, 4), normal(r, 4), "gelu_new"),
    "rotate_heads": lambda r: (
        normal(r, 2, 16),
        normal(r, 16),
        Heads(2, 1, 4, 4, 0.5),
        np.array([1, 0]),
        normal(r, 3, 4),
    ),
    "gather_rows": lambda r: (normal(r, 3, 2), np.array([2, 2, 0])),
    "pad_left": lambda r: (normal(r, 3, 2, 2), np.array([0, 1, 3])),
    "concat_step": lambda r: (normal(r, 2, 1, 3, 2), normal(r, 2, 1, 2)),
    "log_softmax": lambda r: (normal(r, 2, 5),),
    "step_flags": lambda r: (np.array([True, False]), np.array([0, 2]), np.array([[0, 1], [1, 1]])),
    "extend_sequences": lambda r: (
        np.zeros((2, 5), int),
        np.array([3, 0]),
        normal(r, 2),
        np.array([False, True]),
        np.array([0, 0]),
        normal(r, 2),
        np.array([2, 3]),
        np.array([False, False]),
        np.array([1, 2]),
        np.array([3, 3]),
        np.array([0]),
    ),
    "apply_temperature": lambda r: (normal(r, 2, 5), 0.7),
    "add_beam_scores": lambda r: (normal(r, 2, 5), normal(r, 2)),
    "gather_logprobs": lambda r: (np.array([4, 0, 4]), normal(r, 3, 5), normal(r, 3, 5)),
    "token_logprobs": lambda r: (normal(r, 3, 5), np.array([4, 0, 4])),
    "argmax_tokens": lambda r: (normal(r, 3, 5), normal(r, 3, 5)),
    "ban_ngrams": lambda r: (normal(r, 2, 5), np.array([[1, 1, 1], [2, 3, 2]]), np.array([3, 3]), 2),
    "bias_sequences": lambda r: (
        normal(r, 2, 5),
        np.array([[1, 1, 1], [2, 3, 2]]),
        np.array([3, 3]),
        np.array([0, -1]),
        np.array([[[1, 4], [-1, 2]]]),
        np.array([[0.5, -np.inf]]),
    ),
    "penalize_tokens": lambda r: (
        normal(r, 2, 5),
        np.array([[1, 4, 1], [2, 3, 2]]),
        np.array([3, 2]),
        np.array([1, 0]),
        1.3,
    ),
    "typical_filter": lambda r: (normal(r, 2, 6), 0.6, 2),
    "top_k_filter": lambda r: (normal(r, 2, 6), 3),
    "top_p_filter": lambda r: (normal(r, 2, 6), 0.6, 2),
    "sample_tokens": lambda r: (normal(r, 2, 6), r.integers(2**32, size=(2, 2)), np.array([0, 5]), 7),
    "top_candidates": lambda r: (normal(r, 2, 6), 3),
    "hars_candidates": lambda r: (normal(r, 4, 6), normal(r, 2, 2), 3),
    "gumbel": lambda r: (r.integers(2**32, size=(2, 2)), np.array([0, 5]), 6, 7),
}


@pytest.mark.parametrize("name", OPS)
def test_out_is_filled_with_the_same_numbers(name):
    """Rule 4: every op can be told where to write; poison there must not shine through."""
    rng = np.random.default_rng(3)
    expected = OPS[name](*OUT_CASES[name](np.random.default_rng(3)))
    several = expected if isinstance(expected, tuple) else (expected,)
    out = tuple(np.full(e.shape, 77, e.dtype) for e in several)
    arguments = OUT_CASES[name](rng)
    given_out = out if isinstance(expected, tuple) else out[0]
    results = OPS[name](*arguments, out=given_out)
    results = results if isinstance(results, tuple) else (results,)
    for e, o, result in zip(several, out, results, strict=True):
        assert np.array_equal(e, o)
        assert np.shares_memory(result, o)


@pytest.mark.parametrize("name", OUT_CASES)
def test_a_result_has_as_many_rows_as_the_argument_of_its_letter(name):
    """Where an arena hands out places, that argument says how much of a place a call gets."""
    arguments = OUT_CASES[name](np.random.default_rng(7))
    place = dry_run._argument_of_as_many_rows(name)
    results = OPS[name](*arguments)
    for result in results if isinstance(results, tuple) else (results,):
        assert (
            name in ("pad_left", "project_cross_kv", "step_flags", "extend_sequences", "copy_pages")
            if place is None
            else len(result) == len(arguments[place])
        )


def asks(name, arguments, fill=0x55):
    """(what an op asks its workspace for, its results): each array comes full of nonsense."""
    asked = []

    def workspace(shape, dtype):
        array = np.empty(shape, dtype)
        array.view(np.uint8)[...] = fill  # a large number, or a NaN
        asked.append((array.shape, array.dtype))
        return array

    results = OPS[name](*copy.deepcopy(arguments), workspace=workspace)
    return asked, results if isinstance(results, tuple) else (results,)


WITH_WORKSPACE = [name for name, op in OPS.items() if "workspace" in inspect.signature(op).parameters]


ATTENTION = [name for name in OUT_CASES if name.startswith("attend") and name != "attend_prefill"]


@pytest.mark.parametrize("name", ATTENTION)
def test_a_memory_of_half_precision_is_computed_with_in_that_of_the_queries(name):
    """What it holds is exact in float32, so the result is that of the same numbers there, to the last bit."""
    arguments = OUT_CASES[name](np.random.default_rng(7))
    names = inspect.signature(getattr(ops, name)).parameters
    cache = [i for i, p in enumerate(names) if p.startswith(("k_", "v_", "h_", "prompt_k", "prompt_v", "prompt_h"))]
    halves = [a.astype(np.float16) if i in cache else a for i, a in enumerate(arguments)]
    wholes = [a.astype(np.float32) if i in cache else a for i, a in enumerate(halves)]
    assert cache
    result, expected = OPS[name](*halves), OPS[name](*wholes)
    assert result.dtype == np.float32 and np.array_equal(result, expected)


@pytest.mark.parametrize("name", WITH_WORKSPACE)
def test_a_workspace_may_hold_anything_and_is_as_large_for_all_values(name):
    """What is planned from one step must do for every other: of these shapes, whatever the numbers, nothing masked."""
    arguments = OUT_CASES[name](np.random.default_rng(7))
    others = OUT_CASES[name](np.random.default_rng(8))
    begin = {"attend": 3, "attend_shared": 3, "attend_split": 3, "attend_indirect": 3}.get(name)
    if begin is not None:  # no padding
        others = tuple(np.zeros_like(a) if i == begin else a for i, a in enumerate(others))
    expected = OPS[name](*copy.deepcopy(arguments))
    expected = expected if isinstance(expected, tuple) else (expected,)
    first, again = asks(name, arguments), asks(name, arguments, fill=0xFF)
    assert first[0] == again[0] == asks(name, others)[0] != []
    for results in (first[1], again[1]):
        assert all(np.array_equal(r, e) for r, e in zip(results, expected, strict=True))


@given(st.integers(1, 12).flatmap(lambda R: st.lists(st.integers(0, R - 1), min_size=R, max_size=R)) | st.integers(
    1, 9).flatmap(lambda R: st.permutations(range(R))))  # fmt: skip
@example([1, 0, 3, 2])
@example([1, 2, 0, 0, 4])
def test_copies_lose_no_row(parents):
    """With one spare row, each row is written once, and a row that stays is not touched: rings too."""
    rows, spare, written = list(range(len(parents))), None, []
    for to, source in reorder_copies(parents):
        value = spare if source is None else rows[source]
        if to is None:
            spare = value
        else:
            rows[to] = value
            written.append(to)
    assert rows == parents
    assert sorted(written) == [r for r, parent in enumerate(parents) if parent != r]


def bound_cases():
    """(name, result of the op, of the oracle, bound) on inputs big enough that rounding shows."""
    rng = np.random.default_rng(0)
    x, w = normal(rng, 40, 300, plant=False), normal(rng, 300, 30, plant=False)
    yield "linear", OPS["linear"](x, Weight(w)), oracles.linear(x, w), linear_bound(x, w)
    norm = Norm(normal(rng, 300), normal(rng, 300), 1e-5)
    for f in LAYER_NORMS:
        yield f.__name__, f(x, norm), layer_norm_oracle(x, norm), norm_row.layer_norm_error_bound(x, norm)
    yield "log_softmax", OPS["log_softmax"](x)[0], oracles.log_softmax(x), softmax_bound(x)
    tokens, bound = np.argmax(x, axis=1), softmax_bound(x)[:, 0]
    for name, score in [("token_logprobs", OPS["token_logprobs"]), ("token_logprobs_naive", token_logprobs_naive)]:
        yield name, score(x, tokens), oracles.token_logprobs(x, tokens), bound
    q, k, v = normal(rng, 4, 6, 16), normal(rng, 4, 2, 50, 16), normal(rng, 4, 2, 50, 16)
    expected = np.stack([attend_row(q[r], k[r], v[r], 0.25) for r in range(4)])
    bound = np.stack([attend_row_error_bound(q[r], k[r], v[r], 0.25) for r in range(4)])
    yield "attend", OPS["attend"](q, k, v, np.zeros(4, int), np.full(4, 50), 0.25), expected, bound


@pytest.mark.parametrize(
    "name, result, expected, bound", list(bound_cases()), ids=lambda c: c if isinstance(c, str) else ""
)
def test_the_bounds_mean_something(name, result, expected, bound):
    """Observed errors come within a factor of 32 of the bound; a factor of 1.001 in the result breaks it."""
    observed = np.abs(result - expected) / bound
    assert 1 / 32 <= observed.max() <= 1
    assert (np.abs(result * np.float32(1.001) - expected) > bound).any()


def test_a_dropped_position_breaks_the_bound_of_attention():
    rng = np.random.default_rng(1)
    q, k, v = normal(rng, 2, 2, 8), normal(rng, 2, 2, 60, 8), normal(rng, 2, 2, 60, 8)
    whole = np.stack([attend_row(q[r], k[r], v[r], 0.3) for r in range(2)])
    without_first = OPS["attend"](q, k, v, np.ones(2, int), np.full(2, 60), 0.3)
    assert (np.abs(without_first[0] - whole[0]) > attend_row_error_bound(q[0], k[0], v[0], 0.3)).any()


@pytest.mark.parametrize("layer_norm", LAYER_NORMS)
def test_layer_norm_far_from_zero_keeps_its_spread(layer_norm):
    """E[x^2] - mean^2 in float32 would be 0 or negative here."""
    x = (10000 + np.array([[-1, 0, 1, 0.5]])).astype(np.float32)
    norm = Norm(np.ones(4, np.float32), np.zeros(4, np.float32), 1e-5)
    assert (np.abs(layer_norm(x, norm) - layer_norm_oracle(x, norm)) <= norm_row.layer_norm_error_bound(x, norm)).all()
    naive_variance = np.mean(x * x, dtype=np.float32) - np.mean(x, dtype=np.float32) ** 2
    assert abs(naive_variance - x.astype(np.float64).var()) > 0.4
