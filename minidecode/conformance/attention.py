"""What attention of one row is, in float64, and how far a float32 answer may lie from it: for every kind of memory.

A kind of memory is a way to find the positions that a row sees; its file in rows/ collects them and asks here. What is
common to the inputs of all kinds is here too: how numbers are drawn, and what lies where nobody may look.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from .bounds import EPS

NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 0.25, -3.0, 8.0])
POISON = 1e30


def hidden(k_XGMK, v_XGMU, begin_X, end_X) -> tuple:
    """(k_XGMK, v_XGMU) with poison outside of begin <= m < end: zeros for keys, so that such a score counts for
    something, and values that would drown any answer. No NaN: NumPy multiplies masked values by 0, and 0 * NaN is NaN.
    """
    k_XGMK, v_XGMU = k_XGMK.copy(), v_XGMU.copy()
    for x, (begin, end) in enumerate(zip(begin_X, end_X, strict=True)):
        for outside in (slice(begin), slice(end, None)):
            k_XGMK[x, :, outside], v_XGMU[x, :, outside] = 0, POISON
    return k_XGMK, v_XGMU


def drawn(draw, *shape: int) -> np.ndarray:
    """Float32 numbers that are easy to read, for hypothesis to make small."""
    return draw(arrays(np.float32, shape, elements=NUMBERS))


def normal(rng, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def softmax(scores):
    exps = [math.exp(s - max(scores)) for s in scores]
    return [e / math.fsum(exps) for e in exps]


def attend_row(q_HK, k_GMK, v_GMU, scale):
    """One query row over all M positions given: the heads side by side."""
    H, G = len(q_HK), len(k_GMK)
    heads = []
    for h in range(H):
        g = h // (H // G)
        scores = [scale * math.fsum(float(a) * float(b) for a, b in zip(q_HK[h], k, strict=True)) for k in k_GMK[g]]
        weights = softmax(scores)
        heads.append(sum(w * np.asarray(v, np.float64) for w, v in zip(weights, v_GMU[g], strict=True)))
    return np.concatenate(heads)


def attend_bound(q_HK, k_GMK, v_GMU, scale):
    """For one row. A score is off by eps times the length of its vector of products, at worst sqrt(K) of that.

    That is a relative error of the position's weight; M such errors, independent of each other, add up as a random
    walk of steps w|v|. The sum over positions is a walk too, of sqrt(M) roundings where one thread adds them all, and
    log2(M) in a tree, which is more where M is small; normalising costs two.
    """
    H, K = q_HK.shape
    k_HMK, v_HMU = (np.repeat(a.astype(np.float64), H // len(a), axis=0) for a in (k_GMK, v_GMU))
    products_HMK = scale * q_HK[:, None].astype(np.float64) * k_HMK
    scores_HM = products_HMK.sum(axis=-1)
    weights_HM = np.exp(scores_HM - scores_HM.max(axis=-1, keepdims=True))
    weights_HM /= weights_HM.sum(axis=-1, keepdims=True)
    score_error_HM = EPS * (math.sqrt(K) * np.linalg.norm(products_HMK, axis=-1) + np.ptp(scores_HM, axis=-1)[:, None])
    steps_HMU = weights_HM[..., None] * v_HMU
    walk_HU = np.linalg.norm(steps_HMU * (score_error_HM + EPS)[..., None], axis=1)
    M = k_GMK.shape[1]
    roundings = 2 + max(math.log2(M), math.sqrt(M))
    return (4 * walk_HU + roundings * EPS * np.abs(steps_HMU).sum(axis=1)).reshape(-1)


def attend_rows(rows) -> np.ndarray:
    """`attend_row` of each of these."""
    return np.stack([attend_row(*row) for row in rows])


def attend_bounds(rows) -> np.ndarray:
    return np.stack([attend_bound(*row) for row in rows])
