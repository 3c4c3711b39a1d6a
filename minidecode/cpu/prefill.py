"""Attention inside each sentence, compiled for the CPU.

By tiles where the processor has AVX-512 (common/tile.py): a task is a key/value head of a sentence and a block of its
queries, and the worker threads share the tasks. Elsewhere the BLAS makes the products, and one compiled pass makes
scores into weights.
"""

from __future__ import annotations

import numpy as np

from ..device.cores import worker_threads
from ..ops import ALIGNED
from ..reference.prefill import add_bias_of_distances, cast_for_sums, sentence_slices
from .common.code_paths import BLAS, COMPILED, count_call
from .common.jit import njit
from .common.panel_gemm import FLOAT_ROWS, FLOAT_WIDTH, float_tile
from .common.position_bias import add_bias, bias_arrays
from .common.softmax import exponentiate_scores, largest_score, softmax_in_place
from .common.tasks import in_tasks
from .common.thread_pool import ALL_WORKERS, CALLER_ALONE, DONE, TASKS_PER_THREAD, parallel_for
from .common.tile import FLOAT

QUERIES = 32  # in a block; with 64 numbers a head and up to 128 keys its products are small enough for one BLAS thread
QUERIES_PER_TASK = 48  # at least: each task packs the keys and values of its sentence anew
WORTH_WORKERS = 2**20  # multiplications; they take some 10 us


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    """Attention of whole prompts: by tiles in float32 where there are some; else, and for a bias of each row's own, by
    the BLAS.
    """
    q_RHK, k_XGK, v_XGU = cast_for_sums(q_RHK, k_XGK, v_XGU)
    is_float = q_RHK.dtype == k_XGK.dtype == v_XGU.dtype == np.float32
    by_tiles = FLOAT is not None and is_float and (bias is None or len(bias.bias_XHP) == 1)
    attend = _attend_by_tiles if by_tiles else _attend_by_blas
    return attend(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, bias, out)


def _attend_by_tiles(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, bias, out):
    """Six queries at a time: their scores, the softmax and their sums of values stay in the first-level cache."""
    (R, H, K), (G, U) = q_RHK.shape, v_XGU.shape[1:]
    pairs = list(sentence_slices(q_offsets_X, k_offsets_X))
    fits = out is not None and out.dtype == np.float32 and out.flags.c_contiguous
    a_RX = out if fits else np.empty((R, H * U), np.float32)
    if pairs:
        count_call(COMPILED)
        bounds_XX = np.array([(q.start, q.stop, k.start, k.stop) for q, k in pairs])
        longest, most_keys = (int(n) for n in (bounds_XX[:, 1::2] - bounds_XX[:, ::2]).max(axis=0))
        threads = worker_threads().number
        blocks = -(-TASKS_PER_THREAD * threads // (len(pairs) * G))
        per_task = max(QUERIES_PER_TASK, -(-longest // blocks)) if blocks > 1 else longest
        window = (window or most_keys) if causal else 0
        arrays = *map(np.ascontiguousarray, (q_RHK, k_XGK, v_XGU)), bounds_XX, *bias_arrays(bias, np.float32), a_RX
        workers = CALLER_ALONE if R * most_keys * H * (K + U) < WORTH_WORKERS else ALL_WORKERS
        tasks = len(pairs) * G * (-(-longest // per_task))
        parallel_for(_attend_queries, tasks, (*arrays, np.float32(scale), window, per_task), workers)
    if out is None or fits:
        return a_RX
    out[...] = a_RX
    return out


@in_tasks()
def _attend_queries(task, q_RHK, k_XGK, v_XGU, bounds_XX, bias_XHP, bucket_L, zero, a_RX, scale, window, per_task):
    """A block of queries that share a key/value head g: queries n0 to n1 of a sentence, all query heads of g."""
    H, G, sentences = q_RHK.shape[1], v_XGU.shape[1], len(bounds_XX)
    q0, q1, k0, k1 = bounds_XX[task // G % sentences]
    g, n0 = task % G, task // G // sentences * per_task
    n1 = min(n0 + per_task, q1 - q0)
    if n0 < n1:
        ahead = k1 - k0 - (q1 - q0) if window else 0  # of the first query: keys of parts that were read before
        last = n1 + ahead if window else k1 - k0  # of the keys that the task's queries see
        k_PKW, v_PMW = _packed_keys(k_XGK[k0 : k0 + last, g], scale), _packed_values(v_XGU[k0 : k0 + last, g])
        for h in range(g * (H // G), (g + 1) * (H // G)):
            bias_X = _by_distance(bias_XHP, h, bucket_L, zero, n1 + ahead, last)
            _attend_head(q_RHK, k_PKW, v_PMW, bias_X, window, ahead, h, q0, n0, n1, a_RX)
    return DONE


@njit(cache=True, nogil=True)
def _by_distance(bias_XHP, h, bucket_L, zero, N, M):
    """A head's bias from the distance of position N - 1 and key 0 down to that of position 0 and key M - 1, or nothing.

    What the query at position n adds to its keys lies side by side there, from entry N - 1 - n on.
    """
    bias_X = np.zeros(N + M - 1 if len(bias_XHP) else 0, np.float32)
    if len(bias_XHP):
        add_bias(bias_X, bias_XHP[0, h], bucket_L, N - 1 + zero)
    return bias_X


@njit(cache=True, nogil=True)
def _zero_panels(panels, steps):
    """Zeros that begin at a cache line, as the tile reads its panels."""
    numbers = panels * steps * FLOAT_WIDTH
    room_X = np.zeros(numbers + ALIGNED // 4, np.float32)
    first = -room_X.ctypes.data % ALIGNED // 4
    return room_X[first : first + numbers].reshape(panels, steps, FLOAT_WIDTH)


@njit(cache=True, nogil=True)
def _packed_keys(k_MK, scale):
    """Panels of keys for the tile, padded with zeros: for each of K, the numbers of a panel's keys side by side."""
    M, K = k_MK.shape
    k_PKW = _zero_panels(-(-M // FLOAT_WIDTH), K)
    for m in range(M):
        panel, lane = m // FLOAT_WIDTH, m % FLOAT_WIDTH
        for i in range(K):
            k_PKW[panel, i, lane] = k_MK[m, i] * scale
    return k_PKW


@njit(cache=True, nogil=True)
def _packed_values(v_MU):
    """Panels of values: for each position, the numbers of a panel side by side, padded with zeros."""
    M, U = v_MU.shape
    v_PMW = _zero_panels(-(-U // FLOAT_WIDTH), M)
    for m in range(M):
        for u in range(U):
            v_PMW[u // FLOAT_WIDTH, m, u % FLOAT_WIDTH] = v_MU[m, u]
    return v_PMW


@njit(cache=True, nogil=True, error_model="numpy")
def _attend_head(q_RHK, k_PKW, v_PMW, bias_X, window, ahead, h, q0, n0, n1, a_RX):
    """Queries n0 to n1 of head h, of the sentence whose first query is row q0.

    bias_X: what is added to the scores, from query n1 - 1 and key 0 on, as `_by_distance` has it; or nothing.

    window: how many keys a query sees, of which the last is the query's own position, which is ahead + n for query n;
    0 if each sees all keys.
    A tile's weights are not divided by their sum: its results are, which are fewer.
    """
    (panels, K, _), M = k_PKW.shape, v_PMW.shape[1]
    scores_NM = np.empty((FLOAT_ROWS, panels * FLOAT_WIDTH), np.float32)
    sums_NU, total_N = np.empty((FLOAT_ROWS, len(v_PMW) * FLOAT_WIDTH), np.float32), np.empty(FLOAT_ROWS, np.float32)
    scores, sums = np.int64(scores_NM.ctypes.data), np.int64(sums_NU.ctypes.data)
    q, q_row, U = np.int64(q_RHK[q0:, h:].ctypes.data), np.int64(q_RHK.strides[0]), a_RX.shape[1] // q_RHK.shape[1]
    keys, values = np.int64(k_PKW.ctypes.data), np.int64(v_PMW.ctypes.data)
    scores_row, sums_row = np.int64(4 * scores_NM.shape[1]), np.int64(4 * sums_NU.shape[1])
    panel_bytes, values_bytes = 4 * K * FLOAT_WIDTH, 4 * M * FLOAT_WIDTH
    for n in range(n0, n1, FLOAT_ROWS):
        here = min(FLOAT_ROWS, n1 - n)
        at_n = ahead + n
        first, last = (max(0, at_n + 1 - window), at_n + here) if window else (0, M)
        for p in range(first // FLOAT_WIDTH, -(-last // FLOAT_WIDTH)):
            to = scores + 4 * p * FLOAT_WIDTH
            at = q + n * q_row
            float_tile(here, at, q_row, keys + p * panel_bytes, K, 0, 0, to, scores_row, 1, 1, at, 0)
        for i in range(here):
            begin, end = (max(0, at_n + i + 1 - window), at_n + i + 1) if window else (0, M)
            scores_NM[i, first:begin] = 0
            scores_NM[i, end:last] = 0
            if len(bias_X):
                _add(bias_X[n1 - 1 - n - i + begin :], scores_NM[i, begin:end])
            total_N[i] = exponentiate_scores(scores_NM[i, begin:end], largest_score(scores_NM[i, begin:end]))
        for p in range(len(v_PMW)):
            panel, to = values + p * values_bytes + 4 * first * FLOAT_WIDTH, sums + 4 * p * FLOAT_WIDTH
            at = scores + 4 * first
            float_tile(here, at, scores_row, panel, last - first, 0, 0, to, sums_row, 1, 1, at, 0)
        for i in range(here):
            a_U = a_RX[q0 + n + i, h * U : (h + 1) * U]
            for u in range(U):
                a_U[u] = sums_NU[i, u] / total_N[i]


@njit(cache=True, nogil=True)
def _add(bias_X, scores_M):
    for m in range(len(scores_M)):
        scores_M[m] += bias_X[m]


def _attend_by_blas(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, bias, out):
    """If causal, a block of queries meets the keys that one of them sees, which are little more than half of all.

    NumPy goes six times over all scores; here a row stays in the cache. And where the BLAS would share small products
    among threads, which wait for each other whenever other work has a core, it makes a block's in one.
    """
    count_call(BLAS)
    (R, H, _), U = q_RHK.shape, v_XGU.shape[2]
    a_RHU = np.empty((R, H, U), q_RHK.dtype) if out is None else out.reshape(R, H, U)
    for q_rows, k_rows in sentence_slices(q_offsets_X, k_offsets_X):
        q_NHK, k_MGK, v_MGU, a_NHU = q_RHK[q_rows], k_XGK[k_rows], v_XGU[k_rows], a_RHU[q_rows]
        bias_of_rows = bias and bias.of_rows(q_rows)
        if not causal:
            _attend(q_NHK, k_MGK, v_MGU, scale, None, 0, bias_of_rows, a_NHU)
            continue
        N, M = len(q_NHK), len(k_MGK)
        for first in range(0, N, QUERIES):
            mine, position = slice(first, min(first + QUERIES, N)), M - N + first
            begin = max(0, position + 1 - (window or M))
            seen = slice(begin, M - N + mine.stop)
            mine_of_bias = bias_of_rows and bias_of_rows.of_rows(mine)
            _attend(
                q_NHK[mine], k_MGK[seen], v_MGU[seen], scale, window or M, position - begin, mine_of_bias, a_NHU[mine]
            )  # fmt: skip
    return a_RHU.reshape(R, H * U)


def _attend(q_NHK, k_MGK, v_MGU, scale, window, offset, bias, a_NHU):
    """softmax(scale q k^T + bias) v of all heads, into a_NHU.

    window: None if every query sees all keys; else query n sees as many, the last of which is key offset + n.
    """
    (N, H, K), (M, G, U) = q_NHK.shape, v_MGU.shape
    q_GXK = q_NHK.transpose(1, 0, 2).reshape(G, -1, K)  # the H/G query heads of a group, stacked
    scores_GXM = q_GXK @ k_MGK.transpose(1, 2, 0)
    if bias is not None:
        scores_GXM *= scale
        add_bias_of_distances(scores_GXM.reshape(H, N, M), bias, offset)
        scale = 1.0
    _to_weights(scores_GXM.reshape(H, N, M), scores_GXM.dtype.type(scale), window is not None, window or 0, offset)
    a_NHU[:] = (scores_GXM @ v_MGU.transpose(1, 0, 2)).reshape(H, N, U).transpose(1, 0, 2)


@njit(cache=True, nogil=True)
def _to_weights(scores_HNM, scale, causal, window, offset):
    """Products of queries and keys -> the weights of the positions seen, in their place; `_attend` has the window."""
    H, N, M = scores_HNM.shape
    for h in range(H):
        for n in range(N):
            first, last = (max(0, offset + n + 1 - window), offset + n + 1) if causal else (0, M)
            scores_HNM[h, n, :first] = 0
            scores_HNM[h, n, last:] = 0
            _multiply(scores_HNM[h, n, first:last], scale)
            softmax_in_place(scores_HNM[h, n, first:last])


@njit(cache=True, nogil=True)
def _multiply(scores_M, scale):
    for m in range(len(scores_M)):
        scores_M[m] *= scale
