"""Attention over a shared prompt and over what each beam has generated (FastSeq, 4.1.1), compiled for the CPU.

NumPy goes three times over all scores, and for a few rows and many positions BLAS first copies keys and values into an
order of its own, which takes longer than the product itself. Here a cache is read once for four queries, or positions,
at once. And a key/value head of a sentence is done with, scores, softmax and sums, before the next is begun: its scores
stay in the L2 cache, and the worker threads share the heads (thread_pool.py). A float16 cache is read as it is,
and each number is cast in a register.
"""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous_array
from ..reference.common.attention import join_heads
from .common.attention import WORTH_WORKERS, add_sums, scores_of
from .common.low_precision import view_as_bits
from .common.position_bias import add_bias, bias_arrays
from .common.softmax import softmax_in_place
from .common.tasks import in_tasks
from .common.thread_pool import CALLER_ALONE, DONE, SPINNING_WORKERS, parallel_for


@capturable
def attend_split(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None
):
    """Equation 3. With an empty prompt, or no room for what rows generate, also what grouped.py and shared.py do."""
    (R, H, K), (B, G, N, _), (T, U) = q_RHK.shape, prompt_k_BGNK.shape, v_RGTU.shape[2:]
    a_RHU = np.empty((R, H, U), q_RHK.dtype)
    q_RHK, scale = contiguous_array(q_RHK), q_RHK.dtype.type(scale)  # queries are multiplied by it as they are read
    cache = [contiguous_array(view_as_bits(x)) for x in (prompt_k_BGNK, prompt_v_BGNU, k_RGTK, v_RGTU)]
    prompt_begin_B, begin_R, end_R = (contiguous_array(x, np.int64) for x in (prompt_begin_B, begin_R, end_R))
    bias_and_zero = bias_arrays(bias, q_RHK.dtype)
    arrays = q_RHK, *cache[:2], prompt_begin_B, *cache[2:], begin_R, end_R, *bias_and_zero, scale, a_RHU
    is_long = B * G > 1 and R * (N + T) * H * (K + U) > WORTH_WORKERS
    parallel_for(_attend_head, B * G, arrays, SPINNING_WORKERS if is_long else CALLER_ALONE)
    return join_heads(a_RHU, out)


@in_tasks()
def _attend_head(
    task, q_RHK, k_BGNK, v_BGNU, begin_B, k_RGTK, v_RGTU, begin_R, end_R, bias_XHP, bucket_L, zero, scale, a_RHU
):  # fmt: skip
    """Key/value head g of sentence b, for the W rows of the sentence, and of each row the P query heads of the group.

    X are the W*P queries; the scores of each are of N positions of the prompt, and then of its row's own.
    """
    (R, H, K), (B, G), U = q_RHK.shape, k_BGNK.shape[:2], a_RHU.shape[2]
    b, g = task // G, task % G
    W, P, N = R // B, H // G, k_BGNK.shape[2] - begin_B[b]
    k_NK, v_NU = k_BGNK[b, g, begin_B[b] :], v_BGNU[b, g, begin_B[b] :]
    longest = 0
    for r in range(b * W, b * W + W):
        longest = max(longest, end_R[r] - begin_R[r])
    q_XK, a_XU = np.empty((W * P, K), q_RHK.dtype), np.zeros((W * P, U), q_RHK.dtype)
    scores_XM = np.empty((W * P, N + longest), q_RHK.dtype)
    for w in range(W):
        for p in range(P):
            for i in range(K):
                q_XK[w * P + p, i] = q_RHK[b * W + w, g * P + p, i] * scale

    scores_of(q_XK, k_NK, v_NU, scores_XM)
    for w in range(W):
        r, mine = b * W + w, slice(w * P, w * P + P)
        own_k_TK, own_v_TU = k_RGTK[r, g, begin_R[r] : end_R[r]], v_RGTU[r, g, begin_R[r] : end_R[r]]
        scores_of(q_XK[mine], own_k_TK, own_v_TU, scores_XM[mine, N:])
        for p in range(P):
            scores_M = scores_XM[w * P + p, : N + end_R[r] - begin_R[r]]
            if len(bias_XHP):
                bias_P, newest = bias_XHP[min(r, len(bias_XHP) - 1), g * P + p], end_R[r] - 1 + zero
                add_bias(scores_M[:N], bias_P, bucket_L, newest + N)
                add_bias(scores_M[N:], bias_P, bucket_L, newest - begin_R[r])
            softmax_in_place(scores_M)
    add_sums(scores_XM, v_NU, a_XU)
    for w in range(W):
        r, mine = b * W + w, slice(w * P, w * P + P)
        add_sums(scores_XM[mine, N:], v_RGTU[r, g, begin_R[r] : end_R[r]], a_XU[mine])
        a_RHU[r, g * P : g * P + P] = a_XU[mine]
    return DONE
