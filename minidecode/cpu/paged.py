"""Attention over pages, compiled for the CPU: pages are read where they lie, and nothing is gathered first.

A key/value head of a row is done with, scores, softmax and sums, before the next is begun, and worker threads share
them (thread_pool.py). Rows that hold the same page read it soon after each other, so that it comes from a cache of the
processor.
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
def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    """Head after head, page after page."""
    (R, H, K), (G, _, U) = q_RHK.shape, v_XGMU.shape[1:]
    a_RHU = np.empty((R, H, U), q_RHK.dtype)
    cache = [contiguous_array(view_as_bits(x)) for x in (k_XGMK, v_XGMU)]
    numbers = [contiguous_array(x, np.int64) for x in (table_RX, begin_R, end_R)]
    biases = bias_arrays(bias, q_RHK.dtype)
    arrays = contiguous_array(q_RHK), *cache, *numbers, *biases, q_RHK.dtype.type(scale), a_RHU
    is_long = int((end_R - begin_R).sum()) * H * (K + U) > WORTH_WORKERS
    parallel_for(_attend_head, R * G, arrays, SPINNING_WORKERS if is_long else CALLER_ALONE)
    return join_heads(a_RHU, out)


@in_tasks()
def _attend_head(
    task, q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, bias_XHP, bucket_L, zero, scale, a_RHU
):  # fmt: skip
    """The query heads of key/value head g of row r, over pages that lie anywhere."""
    (_, H, K), (_, G, M, U) = q_RHK.shape, v_XGMU.shape
    r, g = task // G, task % G
    per_group, begin, end = H // G, begin_R[r], end_R[r]
    q_XK, a_XU = np.empty((per_group, K), q_RHK.dtype), np.zeros((per_group, U), q_RHK.dtype)
    scores_XM = np.empty((per_group, end - begin), q_RHK.dtype)
    for p in range(per_group):
        for i in range(K):
            q_XK[p, i] = q_RHK[r, g * per_group + p, i] * scale
    for nth in range(begin // M, (end - 1) // M + 1):
        first, last = max(begin - nth * M, 0), min(end - nth * M, M)
        k_MK, v_MU = k_XGMK[table_RX[r, nth], g, first:last], v_XGMU[table_RX[r, nth], g, first:last]
        scores_of(q_XK, k_MK, v_MU, scores_XM[:, nth * M + first - begin :])
    for p in range(per_group):
        if len(bias_XHP):
            bias_P = bias_XHP[min(r, len(bias_XHP) - 1), g * per_group + p]
            add_bias(scores_XM[p], bias_P, bucket_L, end - 1 - begin + zero)
        softmax_in_place(scores_XM[p])
    for nth in range(begin // M, (end - 1) // M + 1):
        first, last = max(begin - nth * M, 0), min(end - nth * M, M)
        add_sums(scores_XM[:, nth * M + first - begin :], v_XGMU[table_RX[r, nth], g, first:last], a_XU)
    a_RHU[r, g * per_group : (g + 1) * per_group] = a_XU
    return DONE
