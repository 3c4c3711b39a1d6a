"""What attention of one row is, in float64, and how far a float32 answer may lie from it: for every kind of cache.

A kind of cache is a way to find the positions that a row sees; its file in rows/ collects them and asks here. What is
common to the inputs of all kinds is here too: how numbers are drawn, and what lies where no op may look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ..device.low_precision import cast_for_cache
from ..ops import PositionBias
from .bounds import EPS, TINY

NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 0.25, -3.0, 8.0])
POISON = 1e30


def poison_unseen_positions(k_XGMK, v_XGMU, begin_X, end_X) -> tuple:
    """(k_XGMK, v_XGMU) with poison outside of begin <= m < end: zeros for keys, so that such a score counts for
    something, and values that would drown any answer. No NaN: NumPy multiplies masked values by 0, and 0 * NaN is NaN.
    """
    k_XGMK, v_XGMU = k_XGMK.copy(), v_XGMU.copy()
    for x, (begin, end) in enumerate(zip(begin_X, end_X, strict=True)):
        for outside in (slice(begin), slice(end, None)):
            k_XGMK[x, :, outside], v_XGMU[x, :, outside] = 0, POISON
    return k_XGMK, v_XGMU


def cast_caches_to_float16(arguments: tuple) -> tuple:
    """The inputs with caches, all arrays of four axes, in float16; poison beyond its range is cut off."""
    return tuple(cast_for_cache(np.dtype(np.float16), a) if getattr(a, "ndim", 0) == 4 else a for a in arguments)


STORED = ("float32", "float16")  # how caches may be


def cast_caches_of_paper_inputs(stored: str, arguments: tuple, description: str) -> tuple[tuple, str]:
    """What a row times, its caches stored so."""
    if stored == "float32":
        return arguments, description
    return cast_caches_to_float16(arguments), f"{description}, caches in {stored}"


def draw_caches_in_float16_or_32(draw, arguments: tuple) -> tuple:
    """Caches in either type."""
    return cast_caches_to_float16(arguments) if draw(st.booleans()) else arguments


def draw_array(draw, *shape: int) -> np.ndarray:
    """Float32 numbers that are easy to read, for hypothesis to make small."""
    return draw(arrays(np.float32, shape, elements=NUMBERS))


def draw_key_and_value_widths(draw) -> tuple[int, int]:
    """(K, U): a few numbers, or once in a while 16 each, which some kernels read by 128-bit loads."""
    is_wide = draw(st.integers(0, 7)) == 7
    return (16, 16) if is_wide else (draw(st.integers(1, 3)), draw(st.integers(1, 3)))


def draw_normal_array(rng, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def make_bucket_table(buckets: int, farthest: int, two_sided: bool = False) -> tuple[np.ndarray, int]:
    """(bucket_L, zero) as T5 has them: small distances each their own, larger ones by their logarithm.

    With both directions, the upper half of the buckets is that of keys behind the query.
    """
    n = buckets // 2 if two_sided else buckets
    half = n // 2

    def bucket_of_distance(back: int) -> int:
        far = abs(back) if two_sided else max(back, 0)
        grown = half + math.floor(math.log(max(far, half) / half) / math.log(farthest / half) * (n - half))
        return (n if two_sided and back < 0 else 0) + (far if far < half else min(grown, n - 1))

    zero = farthest if two_sided else 0
    return np.array([bucket_of_distance(entry - zero) for entry in range(zero + farthest + 1)]), zero


def make_random_position_bias(
    rng, H: int, rows: int = 1, buckets: int = 32, farthest: int = 128, two_sided: bool = False
):
    """A bias at random over T5's buckets; rows: 1 for a bias that all rows share."""
    return PositionBias(2 * draw_normal_array(rng, rows, H, buckets), *make_bucket_table(buckets, farthest, two_sided))


def draw_position_bias(draw, arguments: tuple, H: int, R: int) -> tuple:
    """The arguments, alone or with a position bias behind them: few buckets, which end within a text."""
    kind = draw(st.sampled_from(["none", "shared", "of rows"]))
    if kind == "none":
        return arguments
    bucket_L = draw(st.sampled_from([[0, 1, 2, 2, 3], [0, 1], [3, 1, 0, 2]]))
    zero = draw(st.integers(0, len(bucket_L) - 1))
    bias_XHP = draw_array(draw, 1 if kind == "shared" else R, H, 4)
    return (*arguments, PositionBias(bias_XHP, np.array(bucket_L), zero))


def look_up_bias_of_row(bias, r: int, distances) -> np.ndarray | None:
    """bias_HM of one row, for keys so far before it; None without a bias."""
    if bias is None:
        return None
    bias_HP = bias.bias_XHP[0 if len(bias.bias_XHP) == 1 else r].astype(np.float64)
    entries = [min(max(int(d) + bias.zero, 0), len(bias.bucket_L) - 1) for d in distances]
    return bias_HP[:, [bias.bucket_L[e] for e in entries]]


def softmax_in_plain_python(scores):
    most = max(scores)
    exps = [math.exp(s - most) for s in scores]
    total = math.fsum(exps)
    return [e / total for e in exps]


def attend_row(q_HK, k_GMK, v_GMU, scale, bias_HM=None):
    """One query row over all M positions given: the heads side by side."""
    H, G = len(q_HK), len(k_GMK)
    heads = []
    for h in range(H):
        g = h // (H // G)
        scores = [scale * math.fsum(float(a) * float(b) for a, b in zip(q_HK[h], k, strict=True)) for k in k_GMK[g]]
        if bias_HM is not None:
            scores = [score + float(bias) for score, bias in zip(scores, bias_HM[h], strict=True)]
        weights = softmax_in_plain_python(scores)
        heads.append(sum(w * np.asarray(v, np.float64) for w, v in zip(weights, v_GMU[g], strict=True)))
    return np.concatenate(heads)


HALF, SMALLEST_HALF = 2.0**-11, 2.0**-24  # float16: the relative error of one rounding, and its smallest number


def attend_row_error_bound(q_HK, k_GMK, v_GMU, scale, bias_HM=None):
    """For one row. A score is off by eps times the length of its vector of products, at worst sqrt(K) of that.

    That is a relative error of the position's weight; M such errors, independent of each other, add up as a random
    walk of steps w|v|. The sum over positions is a walk too, of sqrt(M) roundings where one thread adds them all, and
    log2(M) in a tree, which is more where M is small; normalising costs two. A weight below the smallest normal number
    may be 0, and so may its product with v. A bias is one rounding more, of the score that it makes. Where q, k and v
    are float16, `_error_of_rounded_weights` comes on top.
    """
    H, K = q_HK.shape
    k_HMK, v_HMU = (np.repeat(a.astype(np.float64), H // len(a), axis=0) for a in (k_GMK, v_GMU))
    products_HMK = scale * q_HK[:, None].astype(np.float64) * k_HMK
    scores_HM = products_HMK.sum(axis=-1)
    scores_HM += 0 if bias_HM is None else bias_HM
    weights_HM = np.exp(scores_HM - scores_HM.max(axis=-1, keepdims=True))
    weights_HM /= weights_HM.sum(axis=-1, keepdims=True)
    score_error_HM = EPS * (math.sqrt(K) * np.linalg.norm(products_HMK, axis=-1) + np.ptp(scores_HM, axis=-1)[:, None])
    score_error_HM += 0 if bias_HM is None else EPS * np.abs(scores_HM)
    steps_HMU = weights_HM[..., None] * v_HMU
    walk_HU = np.linalg.norm(steps_HMU * (score_error_HM + EPS)[..., None], axis=1)
    M = k_GMK.shape[1]
    roundings = 2 + max(math.log2(M), math.sqrt(M))
    lost_HU = TINY * (np.abs(v_HMU) + 1).sum(axis=1)
    bound_HU = 4 * walk_HU + roundings * EPS * np.abs(steps_HMU).sum(axis=1) + lost_HU
    return (bound_HU + (_error_of_rounded_weights(weights_HM, v_HMU) if q_HK.dtype == np.float16 else 0)).reshape(-1)


def _error_of_rounded_weights(weights_HM, v_HMU):
    """What it does to the sums of values if each weight is rounded to float16, by at most r(w) = 2^-11 w or 2^-25.

    Equal weights are rounded alike, which moves the whole sum by 2^-11 of it; others as a random walk of steps r(w) v,
    of which three times the length is enough. It is never more than all steps in one direction.
    """
    step_HM1 = np.maximum(HALF * weights_HM, SMALLEST_HALF / 2)[..., None]
    whole_HU = HALF * np.abs((weights_HM[..., None] * v_HMU).sum(axis=1))
    walk_HU = 3 * np.linalg.norm(step_HM1 * v_HMU, axis=1)
    return np.minimum(whole_HU + walk_HU, (step_HM1 * np.abs(v_HMU)).sum(axis=1))


def make_oracle_and_error_bound(
    seen: Callable[..., Iterable],
) -> tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]:
    """(oracle, error_bound) of an op. `seen` makes the arguments of `attend_row`, for each row, of the op's."""

    def oracle(*arguments):
        return np.stack([attend_row(*row) for row in seen(*arguments)])

    def bound(*arguments):
        return np.stack([attend_row_error_bound(*row) for row in seen(*arguments)])

    return oracle, bound


def attend_hidden_row(q_HK, h_ND, weights, scale, generated=None):
    """One query row over hidden states, by the keys and values that `weights` (w_k, b_k, w_v, b_v) make of them.

    own: keys and values (k_GTK, v_GTU) of more positions, under the same softmax.
    """
    k_GMK, v_GMU = project_to_keys_and_values(h_ND, weights)
    if generated is not None:
        k_GMK, v_GMU = (np.concatenate(pair, axis=1) for pair in zip((k_GMK, v_GMU), generated, strict=True))
    return attend_row(q_HK, k_GMK, v_GMU, scale)


def project_to_keys_and_values(h_ND, weights):
    """(k_GNK, v_GNU) in float64."""
    w_k_GKD, b_k_GK, w_v_GUD, b_v_GU = (w.astype(np.float64) for w in weights)
    h_ND = h_ND.astype(np.float64)
    return h_ND @ w_k_GKD.transpose(0, 2, 1) + b_k_GK[:, None], h_ND @ w_v_GUD.transpose(0, 2, 1) + b_v_GU[:, None]


def attend_hidden_row_error_bound(q_HK, h_ND, weights, scale, generated=None):
    """For one row. The products may come in either order: (q W_k) h and W_v (p h), or q (W_k h) and p (W_v h).

    So for each number that is summed on the way the bound has what that sum may be off by, in both orders. The error of
    one position's score changes the result by the position's weight times the distance of its value from the mean, and
    such errors are independent of each other: they add up as a random walk. Not so the errors of q W_k, which all
    positions meet, in proportion to their h, of which the values are linear functions: those go through the sum over
    positions. Nor those of q . b_k, which shift all of the positions with hidden states against the others. Numbers
    below the smallest normal one may be 0, in both orders.
    """
    k_GMK, v_GMU = project_to_keys_and_values(h_ND, weights)
    if generated is not None:
        k_GMK, v_GMU = (np.concatenate(pair, axis=1) for pair in zip((k_GMK, v_GMU), generated, strict=True))
    w_k_GKD, b_k_GK, w_v_GUD, _ = (w.astype(np.float64) for w in weights)
    q_HK, h_ND = scale * q_HK.astype(np.float64), h_ND.astype(np.float64)
    H, G = len(q_HK), len(w_k_GKD)
    bounds = []
    for q_K, g in zip(q_HK, np.arange(H) // (H // G), strict=True):
        weights_M, moved_MU = _softmax_and_sensitivity(k_GMK[g] @ q_K, v_GMU[g])
        scores_U = _error_of_scores(q_K, h_ND, k_GMK[g], w_k_GKD[g], b_k_GK[g], moved_MU)
        sums_U = _error_of_sums(weights_M, h_ND, v_GMU[g], w_v_GUD[g])
        lost_U = (np.abs(v_GMU[g]) + 1).sum(axis=0) + (np.abs(w_v_GUD[g]) + 1) @ (np.abs(h_ND) + 1).sum(axis=0)
        bounds.append(EPS * (2 * (scores_U + sums_U) + 4 * weights_M @ np.abs(v_GMU[g])) + TINY * lost_U)
    return np.concatenate(bounds)


def _softmax_and_sensitivity(scores_M, v_MU):
    """The softmax, and by how much the result moves for a relative error of each of its weights."""
    weights_M = np.exp(scores_M - scores_M.max())
    weights_M /= weights_M.sum()
    return weights_M, weights_M[:, None] * (v_MU - weights_M @ v_MU)


def _error_of_scores(q_K, h_ND, k_MK, w_k_KD, b_k_K, moved_MU):
    """What the scores' errors do to the result, in units of eps; the first N of the M positions have hidden states."""
    N, scores_M, queries_KD = len(h_ND), k_MK @ q_K, q_K[:, None] * w_k_KD
    score_M = _error_of_one_sum(q_K * k_MK, axis=1) + np.ptp(scores_M)
    score_M[:N] += _error_of_one_sum(queries_KD.sum(axis=0) * h_ND, axis=1)
    score_M[:N] += np.linalg.norm(_error_of_one_sum(queries_KD * h_ND[:, None], axis=2), axis=1)
    walk_U = np.linalg.norm(score_M[:, None] * moved_MU, axis=0)
    through_U = np.linalg.norm(_error_of_one_sum(queries_KD, axis=0)[:, None] * (h_ND.T @ moved_MU[:N]), axis=0)
    shift = _error_of_one_sum(q_K * b_k_K, axis=0) + np.abs(scores_M).max()
    return walk_U + through_U + shift * np.abs(moved_MU[:N].sum(axis=0))


def _error_of_sums(weights_M, h_ND, v_MU, w_v_UD):
    """The error of the sums over positions and over the width of h."""
    weighted_ND = weights_M[: len(h_ND), None] * h_ND
    hidden_first_U = np.linalg.norm(w_v_UD * _error_of_one_sum(weighted_ND, axis=0), axis=1)
    hidden_first_U += _error_of_one_sum(w_v_UD * weighted_ND.sum(axis=0), axis=1)
    values_first_U = np.linalg.norm(_error_of_one_sum(w_v_UD * weighted_ND[:, None], axis=2), axis=0)
    return hidden_first_U + values_first_U + _error_of_one_sum(weights_M[:, None] * v_MU, axis=0)


def _error_of_one_sum(terms, axis):
    """How far one thread's sum is off, in units of eps, if its roundings are independent: sqrt(n) partial sums' worth.

    Partial sums are as long as the vector of terms where signs are mixed, and grow up to the sum where they are not.
    """
    size = np.linalg.norm(terms, axis=axis) + np.abs(terms.sum(axis=axis))
    return math.sqrt(terms.shape[axis]) * size
