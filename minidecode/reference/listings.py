"""The code listings of the multi-query paper (Shazeer 2019), one function each, to be read beside the paper.

Here alone names follow the paper and not the dimension key: arguments are called as in print, and its letters are

    b sequences    n queries    m memory positions    d model width    h heads    k key width    v value width

which the key (dims.py) calls B, N, M, D, H, K and U. So `P_q` is a projection and no array of shape q. The functions
have the paper's names in snake_case. What is printed and cannot run, or is wrong, stands under Erratum where it was
mended. One holds for all of them: `tf.softmax` is printed, which TensorFlow does not have; `tf.nn.softmax`, along the
last axis, is meant, and `softmax` stands here.

Contract: tolerance. The ops that a model runs (grouped.py, prefill.py) give the same results, which the tests hold;
that they also scale the logits is no difference (see `fold_scale`). bench/multi_query_costs.py counts what each listing
moves and computes. They are for reading: where sequences differ in length, or a cache is to grow in place, see
cache/.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .common.softmax import softmax


def dot_product_attention(q, K, V):
    """y = sum_m softmax_m(q . K[m]) V[m]: one query against m keys and values (section 2.1).

    q: [k]; K: [m, k]; V: [m, v]. Returns y: [v].
    """
    logits = np.einsum("k,mk->m", q, K)
    weights = softmax(logits)
    return np.einsum("m,mv->v", weights, V)


def multihead_attention(x, M, P_q, P_k, P_v, P_o):
    """h attentions side by side for one query, each with projections of its own, summed (section 2.2).

    y = sum_h P_o[h] attention(x P_q[h], M P_k[h], M P_v[h])

    x: [d]; M: [m, d]; P_q, P_k: [h, d, k]; P_v, P_o: [h, d, v]. Returns y: [d].
    """
    q = np.einsum("d,hdk->hk", x, P_q)
    K = np.einsum("md,hdk->hmk", M, P_k)
    V = np.einsum("md,hdv->hmv", M, P_v)
    logits = np.einsum("hk,hmk->hm", q, K)
    weights = softmax(logits)
    o = np.einsum("hm,hmv->hv", weights, V)
    y = np.einsum("hv,hdv->d", o, P_o)
    return y


def multihead_attention_batched(X, M, mask, P_q, P_k, P_v, P_o):
    """Multi-head attention for n queries of each of b sequences; the mask is added to the logits (section 2.3).

    X: [b, n, d]; M: [b, m, d]; mask: [b, h, n, m], 0 where a query may look and -inf where not, or what broadcasts to
    that; every query may look somewhere. P_q, P_k: [h, d, k]; P_v, P_o: [h, d, v]. Returns Y: [b, n, d].
    """
    Q = np.einsum("bnd,hdk->bhnk", X, P_q)
    K = np.einsum("bmd,hdk->bhmk", M, P_k)
    V = np.einsum("bmd,hdv->bhmv", M, P_v)
    logits = np.einsum("bhnk,bhmk->bhnm", Q, K)
    weights = softmax(logits + mask)
    O = np.einsum("bhnm,bhmv->bhnv", weights, V)  # noqa: E741 (as printed)
    Y = np.einsum("bhnv,hdv->bnd", O, P_o)
    return Y


def multihead_self_attention_incremental(x, prev_K, prev_V, P_q, P_k, P_v, P_o):
    """One new position of each sequence against all positions so far, its own included (section 2.4).

    x: [b, d]; prev_K: [b, h, m, k]; prev_V: [b, h, m, v]; P_q, P_k: [h, d, k]; P_v, P_o: [h, d, v].
    Returns y: [b, d], new_K: [b, h, m+1, k], new_V: [b, h, m+1, v].

    Erratum. new_K and new_V are printed as projections of `M`, which is no argument here (NameError): in
    self-attention the new position is projected, so it is `x`. y is printed from `O`, which is called `o` a line
    above (NameError).
    """
    q = np.einsum("bd,hdk->bhk", x, P_q)
    new_K = np.concatenate([prev_K, np.expand_dims(np.einsum("bd,hdk->bhk", x, P_k), axis=2)], axis=2)
    new_V = np.concatenate([prev_V, np.expand_dims(np.einsum("bd,hdv->bhv", x, P_v), axis=2)], axis=2)
    logits = np.einsum("bhk,bhmk->bhm", q, new_K)
    weights = softmax(logits)
    o = np.einsum("bhm,bhmv->bhv", weights, new_V)
    y = np.einsum("bhv,hdv->bd", o, P_o)
    return y, new_K, new_V


def multiquery_attention_batched(X, M, mask, P_q, P_k, P_v, P_o):
    """All h queries look at one set of keys and values: the letter h is gone from K, V, P_k and P_v (section 3).

    X: [b, n, d]; M: [b, m, d]; mask: [b, h, n, m], as for the multi-head listing; P_q: [h, d, k]; P_k: [d, k];
    P_v: [d, v]; P_o: [h, d, v]. Returns Y: [b, n, d].
    """
    Q = np.einsum("bnd,hdk->bhnk", X, P_q)
    K = np.einsum("bmd,dk->bmk", M, P_k)
    V = np.einsum("bmd,dv->bmv", M, P_v)
    logits = np.einsum("bhnk,bmk->bhnm", Q, K)
    weights = softmax(logits + mask)
    O = np.einsum("bhnm,bmv->bhnv", weights, V)  # noqa: E741 (as printed)
    Y = np.einsum("bhnv,hdv->bnd", O, P_o)
    return Y


def multiquery_self_attention_incremental(x, prev_K, prev_V, P_q, P_k, P_v, P_o):
    """One new position of each sequence; the cache that each step reads is an h-th of multi-head's (section 3).

    x: [b, d]; prev_K: [b, m, k]; prev_V: [b, m, v]; P_q: [h, d, k]; P_k: [d, k]; P_v: [d, v]; P_o: [h, d, v].
    Returns y: [b, d], new_K: [b, m+1, k], new_V: [b, m+1, v].

    Erratum. `M` is printed for `x`, as in section 2.4 (NameError). expand_dims and concat are printed with axis=2, as
    for multi-head; with the letter h an axis has gone too, and positions are on axis 1. On axis 2 the new key would
    be [b, k, 1], which fits no cache of m positions unless m = k, and then it would widen every key instead. The
    caches are printed as `K` and `V`, and called new_K and new_V here, as in what the listing says it returns.
    """
    q = np.einsum("bd,hdk->bhk", x, P_q)
    new_K = np.concatenate([prev_K, np.expand_dims(np.einsum("bd,dk->bk", x, P_k), axis=1)], axis=1)
    new_V = np.concatenate([prev_V, np.expand_dims(np.einsum("bd,dv->bv", x, P_v), axis=1)], axis=1)
    logits = np.einsum("bhk,bmk->bhm", q, new_K)
    weights = softmax(logits)
    o = np.einsum("bhm,bmv->bhv", weights, new_V)
    y = np.einsum("bhv,hdv->bd", o, P_o)
    return y, new_K, new_V


def fold_scale(weight, heads):
    """(weight, heads) of the same attention with heads.scale = 1: the scale is in the queries (note to section 2.2).

    scale * (x W + b) . k = (x (scale W) + scale b) . k; the paper's projections have no bias, those of GPT-2 and BART
    do. weight: an ops.Weight, of floats, whose first H*K outputs are the queries: q, k and v in one, or q alone.

    Contract: exact where the scale is a power of two, as with GPT-2's K = 64, else tolerance. It saves R*H*M products
    of an attention over M positions, and copies the weight: a file that was mapped is no longer used in place, so
    nothing folds by itself.
    """
    data, bias = weight.data.copy(), weight.bias if weight.bias is None else weight.bias.copy()
    outputs_XD = data if weight.layout == "oi" else data.T
    outputs_XD[: heads.H * heads.K] *= heads.scale
    if bias is not None:
        bias[: heads.H * heads.K] *= heads.scale
    return replace(weight, data=data, bias=bias), replace(heads, scale=1.0)
