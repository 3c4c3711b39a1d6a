"""EL's sums over hidden states, weighted by exponentials of scores: kernels of el.py and el_split.py."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64
from numba.core.types import float16

from ...device.launch import launch
from ...errors import OptionError
from ...reference import scratch
from .grids import launch_thread_per_number
from .reduction import warp_sum

THREADS = 256  # of a block of `sum_states_by_block`
WARPS = THREADS // 32
MINUS_INF = float32(-np.inf)
QUERIES = 4  # heads and beams that a block of version 2 serves
TILE = 4  # positions of which it stages the hidden states together
PAIRS = QUERIES * TILE
ROOM = 1024  # widest hidden states of version 2: with QUERIES and TILE, 32 KiB of shared memory
COLUMNS = ROOM // THREADS  # numbers of each sum that a thread keeps in registers


def sum_hidden_states_v1(q_RHK, h_BND, begin_B, w_k_GKD, scale, workspace=None):
    """sum_n exp(score_n - top) h_n of each row and head, their largest score `top`, and the sum of the exponentials.

    Four launches, a thread for each number of each result. Reads (4 + s)RHND bytes twice and writes all scores, 4RHN,
    twice; s: bytes of a number of h_BND.
    """
    el_q_RHD = project_el_queries(q_RHK, h_BND, w_k_GKD, scale, workspace)
    R, H, D = el_q_RHD.shape
    scores_RHN = scratch(workspace, (R, H, h_BND.shape[1]), q_RHK)
    sums_RHD, top_RH, total_RH = (scratch(workspace, shape, q_RHK) for shape in ((R, H, D), (R, H), (R, H)))
    launch_thread_per_number(score_hidden_states, scores_RHN, el_q_RHD, h_BND)
    launch_thread_per_number(exponentiate_scores, top_RH, total_RH, scores_RHN, begin_B)
    launch_thread_per_number(sum_weighted_states, sums_RHD, scores_RHN, h_BND, begin_B)
    return sums_RHD, top_RH, total_RH


def sum_hidden_states(q_RHK, h_BND, begin_B, w_k_GKD, scale, workspace=None):
    """The sums of `sum_hidden_states_v1` by one kernel behind the product with W_k.

    Launches `multiply_queries_by_w_k`, and `sum_states_by_block` in B ceil(R/B * H / QUERIES) blocks of 256. Reads
    sRHND / QUERIES bytes of hidden states and writes 4RH(D + 2). Hidden states wider than ROOM take version 1.
    """
    if h_BND.shape[2] > ROOM:
        return sum_hidden_states_v1(q_RHK, h_BND, begin_B, w_k_GKD, scale, workspace)
    el_q_RHD = project_el_queries(q_RHK, h_BND, w_k_GKD, scale, workspace)
    (R, H, D), B = el_q_RHD.shape, len(h_BND)
    sums_RHD, top_RH, total_RH = (scratch(workspace, shape, q_RHK) for shape in ((R, H, D), (R, H), (R, H)))
    of_sentence = (a.reshape(B, -1, *a.shape[2:]) for a in (el_q_RHD, sums_RHD, top_RH, total_RH))
    launch(sum_states_by_block, B * -(-R // B * H // QUERIES), THREADS, *of_sentence, h_BND, begin_B)
    return sums_RHD, top_RH, total_RH


def project_el_queries(q_RHK, h_BND, w_k_GKD, scale, workspace=None):
    """q' = scale * q W_k, as wide as the hidden states."""
    refuse_other_types(q_RHK, h_BND)
    R, H, _ = q_RHK.shape
    el_q_RHD = scratch(workspace, (R, H, h_BND.shape[2]), q_RHK)
    launch_thread_per_number(multiply_queries_by_w_k, el_q_RHD, q_RHK, w_k_GKD, np.float32(scale))
    return el_q_RHD


def refuse_other_types(q_RHK, h_BND):
    """Raises OptionError unless queries are float32, and hidden states float32 or float16."""
    if q_RHK.dtype != np.float32 or h_BND.dtype not in (np.float32, np.float16):
        raise OptionError(
            f"the kernels of EL compute in float32, on hidden states of float32 or float16, not {q_RHK.dtype} on"
            f" {h_BND.dtype}: the reference takes any"
        )


@cuda.jit
def multiply_queries_by_w_k(el_q_RHD, q_RHK, w_k_GKD, scale):
    """One number of q' = scale * q W_k.

    Grid ceil(RHD / 128), block 128. A thread reads 8K bytes and writes 4.
    """
    R, H, D = el_q_RHD.shape
    i = cuda.grid(1)
    if i >= R * H * D:
        return
    r, h, d = i // (H * D), i // D % H, i % D
    g = h // (H // w_k_GKD.shape[0])
    total = float32(0)
    for k in range(q_RHK.shape[2]):
        total += q_RHK[r, h, k] * w_k_GKD[g, k, d]
    el_q_RHD[r, h, d] = scale * total


@cuda.jit
def score_hidden_states(scores_RHN, el_q_RHD, h_BND):
    """The score of one position: q' of a row and head times a hidden state.

    Grid ceil(RHN / 128), block 128. A thread reads (4 + s)D bytes and writes 4; s: bytes of a number of h_BND.
    """
    R, H, N = scores_RHN.shape
    i = cuda.grid(1)
    if i >= R * H * N:
        return
    r, h, n = i // (H * N), i // N % H, i % N
    b = r // (R // h_BND.shape[0])
    total = float32(0)
    for d in range(h_BND.shape[2]):
        total += el_q_RHD[r, h, d] * float32(h_BND[b, n, d])
    scores_RHN[r, h, n] = total


@cuda.jit
def exponentiate_scores(top_RH, total_RH, scores_RHN, begin_B):
    """The maximum of a row and head, its scores as exponentials in place, and their sum; padding is left as it is.

    Grid ceil(RH / 128), block 128. A thread reads up to 12N bytes and writes 4N + 8.
    """
    R, H, N = scores_RHN.shape
    i = cuda.grid(1)
    if i >= R * H:
        return
    r, h = i // H, i % H
    begin = begin_B[r // (R // begin_B.size)]
    running_max, running_sum = MINUS_INF, float32(0)
    for n in range(begin, N):
        running_max = max(running_max, scores_RHN[r, h, n])
    for n in range(begin, N):
        scores_RHN[r, h, n] = math.exp(scores_RHN[r, h, n] - running_max)
        running_sum += scores_RHN[r, h, n]
    top_RH[r, h], total_RH[r, h] = running_max, running_sum


@cuda.jit
def sum_weighted_states(sums_RHD, weights_RHN, h_BND, begin_B):
    """One number of sum_n weight_n h_n of a row and head.

    Grid ceil(RHD / 128), block 128. A thread reads up to (4 + s)N bytes and writes 4.
    """
    R, H, D = sums_RHD.shape
    i = cuda.grid(1)
    if i >= R * H * D:
        return
    r, h, d = i // (H * D), i // D % H, i % D
    b = r // (R // h_BND.shape[0])
    total = float32(0)
    for n in range(begin_B[b], h_BND.shape[1]):
        total += weights_RHN[r, h, n] * float32(h_BND[b, n, d])
    sums_RHD[r, h, d] = total


@cuda.jit
def sum_states_by_block(el_q_BXD, sums_BXD, top_BX, total_BX, h_BND, begin_B):
    """Sums over a sentence's hidden states for QUERIES of its X heads and beams, by online softmax.

    Grid B ceil(X / QUERIES), block 256. Reads up to sND bytes of hidden states and 4D a query; writes 4D + 8 a query.
    """
    tile = cuda.shared.array((TILE, ROOM), float32)
    query = cuda.shared.array((QUERIES, ROOM), float32)
    weight = cuda.shared.array((QUERIES, TILE), float32)
    running_max = cuda.shared.array(QUERIES, float32)
    running_sum = cuda.shared.array(QUERIES, float32)
    shrink = cuda.shared.array(QUERIES, float32)
    sums = cuda.local.array((QUERIES, COLUMNS), float32)
    X, N, D, t = el_q_BXD.shape[1], h_BND.shape[1], h_BND.shape[2], cuda.threadIdx.x
    blocks = (X + QUERIES - 1) // QUERIES  # of each sentence
    b, first = cuda.blockIdx.x // blocks, cuda.blockIdx.x % blocks * QUERIES
    for q in range(QUERIES):
        for d in range(t, D, THREADS):
            query[q, d] = el_q_BXD[b, first + q, d] if first + q < X else float32(0)
        for c in range(COLUMNS):
            sums[q, c] = float32(0)
    if t < QUERIES:
        running_max[t], running_sum[t] = MINUS_INF, float32(0)

    for n in range(begin_B[b], N, TILE):
        for k in range(TILE):
            for d in range(t, D, THREADS):
                tile[k, d] = float32(h_BND[b, n + k, d]) if n + k < N else float32(0)
        cuda.syncthreads()  # queries and tile are there
        for pair in range(t // 32, PAIRS, WARPS):  # the tile as keys: a warp sums the score of a query and a position
            q, k = pair // TILE, pair % TILE
            score = float32(0)
            for d in range(t % 32, D, 32):
                score += query[q, d] * tile[k, d]
            score = warp_sum(score)
            if t % 32 == 0:
                weight[q, k] = score if n + k < N else MINUS_INF
        cuda.syncthreads()  # all scores are there
        if t < QUERIES:
            best = running_max[t]
            for k in range(TILE):
                best = max(best, weight[t, k])
            shrink[t] = math.exp(running_max[t] - best)
            running_sum[t] *= shrink[t]
            for k in range(TILE):
                weight[t, k] = math.exp(weight[t, k] - best)
                running_sum[t] += weight[t, k]
            running_max[t] = best
        cuda.syncthreads()  # all weights are there
        for c in range(COLUMNS):  # the tile as values: a thread sums its columns for all queries
            d = t + c * THREADS
            if d < D:
                for q in range(QUERIES):
                    sums[q, c] *= shrink[q]
                    for k in range(TILE):
                        sums[q, c] += weight[q, k] * tile[k, d]
        cuda.syncthreads()  # no thread needs this tile any more

    for q in range(QUERIES):
        for c in range(COLUMNS):
            if first + q < X and t + c * THREADS < D:
                sums_BXD[b, first + q, t + c * THREADS] = sums[q, c]
    if t < QUERIES and first + t < X:
        top_BX[b, first + t], total_BX[b, first + t] = running_max[t], running_sum[t]


# What each kernel is compiled and type-checked for, without a GPU. Queries and weights are views into wider arrays.
_VIEW, _ROWS, _ROW, _PLACES = float32[:, :, :], float32[:, :, ::1], float32[:, ::1], int64[::1]
HIDDEN = (float32[:, :, ::1], float16[:, :, ::1])
SIGNATURES = {
    multiply_queries_by_w_k: [(_ROWS, _VIEW, _VIEW, float32)],
    score_hidden_states: [(_ROWS, _ROWS, h) for h in HIDDEN],
    exponentiate_scores: [(_ROW, _ROW, _ROWS, _PLACES)],
    sum_weighted_states: [(_ROWS, _ROWS, h, _PLACES) for h in HIDDEN],
    sum_states_by_block: [(_ROWS, _ROWS, _ROW, _ROW, h, _PLACES) for h in HIDDEN],
}
LARGEST_BLOCK = {sum_states_by_block: THREADS}
REGISTERS = {sum_states_by_block: 128}  # so two blocks fill a multiprocessor; shared memory lets in no more on a T4
