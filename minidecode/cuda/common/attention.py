"""Attention of one row per beam over keys and values: what versions 1 to 4 of grouped.py, shared.py and split.py share.

A softmax needs the largest score before the first exponential. Online softmax (Milakov and Gimelshein 2018) reads the
positions tile by tile and keeps three numbers or rows: running_max, the largest score so far; running_sum, the sum of
exp(score - running_max); and the sum of exp(score - running_max) v. If a tile has a larger score, everything before it
is scaled by exp(old maximum - new maximum). At the end, the sum of values is divided by running_sum. The partial
results of two blocks over different positions are merged in the same way.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64, types

from ...device.launch import launch
from ...errors import OptionError
from ...reference import scratch
from .position_bias import bias_at
from .reduction import LANES, THREADS, WARPS, warp_sum

MINUS_INF = float32(-np.inf)  # the score of a position that is not seen; exp of it is 0
TILE = 32  # positions that are scored together: one for each lane of a warp
WIDEST = 128  # numbers of a head that fit into shared memory
PADDED = 129  # numbers of a staged row: one more, so that lanes that read a column of the tile have no bank conflict
QUERIES = 16  # of one block; more go to further blocks, and each of those reads the cache again
STATE = 130  # numbers of a query: U sums, running_max and running_sum
# Blocks of a multiprocessor for which the compiler saves registers. Their shared memory, 35 KB each, lets in six on an
# H100 (228 KB), four on an A100 (164 KB), one on a T4 (64 KB).
BOUNDS = (THREADS, 5)
ENOUGH = 512  # blocks that keep a large GPU busy: a few for each of its hundred multiprocessors
SHORTEST = 64  # positions worth a block of their own


@cuda.jit(device=True)
def dot(a, b, width):
    """a . b over `width` numbers, the second one cast to float32."""
    total = float32(0)
    for d in range(width):
        total += a[d] * float32(b[d])
    return total


# Three kernels: scores, softmax, weighted sums. A cache is given in parts of X caches each, of R/X rows each; the
# scores of all parts lie side by side, those of this part from column `first` on.


@cuda.jit
def scores_of_part(q_RHK, k_XGMK, begin_X, end_X, scale, first, scores_RHM):
    """A thread for each score, scale * q . k, -inf where a position is not seen.

    Grid ceil(RHM / 128), block 128. A thread reads (4 + s)K bytes and writes 4.
    """
    R, H, K = q_RHK.shape
    X, G, M, _ = k_XGMK.shape
    n = cuda.grid(1)
    if n >= R * H * M:
        return
    r, h, m = n // (H * M), n // M % H, n % M
    x = r // (R // X)
    score = MINUS_INF
    if begin_X[x] <= m < end_X[x]:
        score = scale * dot(q_RHK[r, h], k_XGMK[x, h // (H // G), m], K)
    scores_RHM[r, h, first + m] = score


@cuda.jit
def add_position_bias(scores_RHM, bias_XHP, bucket_L, shift, end_R):
    """Adds to each score what the position bias has for its row, head and distance, a thread for each.

    Grid ceil(RHM / 128), block 128. A thread reads 24 bytes and writes 4.
    """
    R, H, M = scores_RHM.shape
    n = cuda.grid(1)
    if n >= R * H * M:
        return
    r, h, m = n // (H * M), n // M % H, n % M
    scores_RHM[r, h, m] += bias_at(bias_XHP, bucket_L, r, h, end_R[r] - m + shift)


@cuda.jit
def softmax_of_rows(scores_RHM):
    """The softmax of each row of scores in place, a thread for each row and head.

    Grid ceil(RH / 128), block 128. A thread reads 12M bytes and writes 8M.
    """
    R, H, M = scores_RHM.shape
    n = cuda.grid(1)
    if n >= R * H:
        return
    scores_M = scores_RHM[n // H, n % H]
    running_max, running_sum = MINUS_INF, float32(0)
    for m in range(M):
        running_max = max(running_max, scores_M[m])
    for m in range(M):
        scores_M[m] = math.exp(scores_M[m] - running_max)
        running_sum += scores_M[m]
    for m in range(M):
        scores_M[m] /= running_sum


@cuda.jit
def sums_of_part(weights_RHM, v_XGMU, begin_X, end_X, first, a_RX):
    """A thread for each number of the result, to which it adds what this part gives.

    Grid ceil(RHU / 128), block 128. A thread reads (4 + s)M bytes and 4 of the result, and writes 4.
    """
    R, H, _ = weights_RHM.shape
    X, G, _, U = v_XGMU.shape
    n = cuda.grid(1)
    if n >= R * H * U:
        return
    r, h, u = n // (H * U), n // U % H, n % U
    x, g = r // (R // X), h // (H // G)
    total = float32(0)
    for m in range(begin_X[x], min(end_X[x], v_XGMU.shape[2])):
        total += weights_RHM[r, h, first + m] * float32(v_XGMU[x, g, m, u])
    a_RX[r, h * U + u] += total


def launch_three_kernels(q_RHK, parts, scale, out, bias=None, end_R=None, ahead=0):
    """The answer by way of all scores; parts: (k_XGMK, v_XGMU, begin_X, end_X) of each.

    A position bias takes a kernel more. Row r's own position is ahead + end[r] - 1, if those of the parts lie one
    behind the other.
    """
    a_RX = make_result_array(q_RHK, [array for k_XGMK, v_XGMU, *_ in parts for array in (k_XGMK, v_XGMU)], out)
    R, H = q_RHK.shape[:2]
    scores_RHM = np.empty_like(q_RHK, shape=(R, H, sum(k_XGMK.shape[2] for k_XGMK, *_ in parts)))
    a_RX[...] = 0
    first = 0
    for k_XGMK, _, begin_X, end_X in parts:
        M = k_XGMK.shape[2]
        launch(scores_of_part, -(-R * H * M // THREADS), THREADS, q_RHK, k_XGMK, begin_X, end_X, np.float32(scale),
               first, scores_RHM)  # fmt: skip
        first += M
    if bias is not None:
        biases = bias.bias_XHP, bias.bucket_L, bias.zero + ahead - 1
        launch(add_position_bias, -(-scores_RHM.size // THREADS), THREADS, scores_RHM, *biases, end_R)
    launch(softmax_of_rows, -(-R * H // THREADS), THREADS, scores_RHM)
    first = 0
    for k_XGMK, v_XGMU, begin_X, end_X in parts:
        launch(sums_of_part, -(-a_RX.size // THREADS), THREADS, scores_RHM, v_XGMU, begin_X, end_X, first, a_RX)
        first += k_XGMK.shape[2]
    return a_RX


@cuda.jit(device=True)
def rescale_for_tile(score, running_max):
    """(running_max, keep, weight): with this tile; the factor of earlier sums; this lane's exp(score - running_max)."""
    larger = score
    for step in (16, 8, 4, 2, 1):
        larger = max(larger, cuda.shfl_xor_sync(LANES, larger, step))  # in the end the same in every lane
    larger = max(larger, running_max)
    return larger, math.exp(running_max - larger), math.exp(score - larger)


# One warp for one query: a lane scores a position, then sums a column.


@cuda.jit(device=True)
def accumulate_positions(q_K, k_MK, v_MU, begin, end, scale, running_max, running_sum, weights, a_U):
    """Adds positions begin to end. Returns (running_max, running_sum); the sums of values are in a_U."""
    lane, K, U = cuda.threadIdx.x, k_MK.shape[1], v_MU.shape[1]
    end = min(end, k_MK.shape[0])  # also in a captured step that is launched once too often
    for start in range(begin, end, TILE):
        count = min(TILE, end - start)
        score = MINUS_INF
        if lane < count:
            score = scale * dot(q_K, k_MK[start + lane], K)
        running_max, keep, weight = rescale_for_tile(score, running_max)
        running_sum = running_sum * keep + warp_sum(weight)
        weights[lane] = weight
        cuda.syncwarp(LANES)
        for u in range(lane, U, 32):
            a = float32(0)  # of this tile alone: small sums, added, err less than one long one
            for j in range(count):
                a += weights[j] * float32(v_MU[start + j, u])
            a_U[u] = a_U[u] * keep + a
        cuda.syncwarp(LANES)  # no lane needs these weights any more
    return running_max, running_sum


@cuda.jit(device=True)
def set_to_zero(a_U):
    """Sets a_U to 0, by one warp."""
    for u in range(cuda.threadIdx.x, a_U.size, 32):
        a_U[u] = float32(0)


@cuda.jit(device=True)
def divide_by_weights(a_U, running_sum):
    """Divides the sums of values by the sum of weights, by one warp."""
    for u in range(cuda.threadIdx.x, a_U.size, 32):
        a_U[u] /= running_sum


# One block for the queries that share a key/value head of one cache: the H/G heads of its group in all R/X rows of the
# cache. Query n is that of row x R/X + n // (H/G) and head g H/G + n % (H/G). A block takes a tile of up to QUERIES of
# them, and each belongs to one warp. A query's row of `states` is its state: U sums, running_max, running_sum.


@cuda.jit(device=True)
def make_block_buffers():
    """(queries, tile, weights, found) in shared memory."""
    queries = cuda.shared.array((QUERIES, WIDEST), float32)
    tile = cuda.shared.array((TILE, PADDED), float32)
    weights = cuda.shared.array((QUERIES, TILE), float32)
    states = cuda.shared.array((QUERIES, STATE), float32)
    return queries, tile, weights, states


@cuda.jit(device=True)
def find_tile_of_block(q_RHK, k_XGMK):
    """(x, g, count, tile_head): the cache, the key/value head, the number of queries, and what row_and_head_of_query
    needs: row and head of query 0, the heads of a group, and the first query.
    """
    X, G = k_XGMK.shape[0], k_XGMK.shape[1]
    W, per_group = q_RHK.shape[0] // X, q_RHK.shape[1] // G
    x, g, first = cuda.blockIdx.x // G, cuda.blockIdx.x % G, cuda.blockIdx.y * QUERIES
    return x, g, min(QUERIES, W * per_group - first), (x * W, g * per_group, per_group, first)


@cuda.jit(device=True)
def row_and_head_of_query(i, tile_head):
    """Row and head of the tile's i-th query. Divides by hand: the routine for 64-bit numbers needs many registers."""
    row, head, per_group, first = tile_head
    n = first + i
    while n >= per_group:
        n, row = n - per_group, row + 1
    return row, head + n


@cuda.jit(device=True)
def stage_queries(q_RHK, tile_head, count, U, buffers):
    """Copies the tile's queries into shared memory, and clears their states."""
    queries, _, _, states = buffers
    warp, lane = cuda.threadIdx.x >> 5, cuda.threadIdx.x & 31
    for i in range(warp, count, WARPS):
        r, h = row_and_head_of_query(i, tile_head)
        for d in range(lane, q_RHK.shape[2], 32):
            queries[i, d] = q_RHK[r, h, d]
        for u in range(lane, U + 2, 32):
            states[i, u] = MINUS_INF if u == U else float32(0)
    cuda.syncthreads()


@cuda.jit(device=True)
def accumulate_for_queries(k_MK, v_MU, begin, end, first, last, scale, buffers):
    """Adds positions begin to end to the states of queries first to last. Each position is read once for all."""
    queries, tile, weights, states = buffers
    warp, lane = cuda.threadIdx.x >> 5, cuda.threadIdx.x & 31
    K, U = k_MK.shape[1], v_MU.shape[1]
    end = min(end, k_MK.shape[0])  # also in a captured step that is launched once too often
    for start in range(begin, end, TILE):
        count = min(TILE, end - start)
        stage_rows(k_MK, start, count, tile)
        for i in range(first + warp, last, WARPS):
            score = MINUS_INF
            if lane < count:
                score = scale * dot(queries[i], tile[lane], K)
            running_max, keep, weight = rescale_for_tile(score, states[i, U])
            running_sum = states[i, U + 1] * keep + warp_sum(weight)
            weights[i, lane] = weight
            for u in range(lane, U, 32):
                states[i, u] *= keep
            cuda.syncwarp(LANES)  # every lane has read what the first one changes now
            if lane == 0:
                states[i, U], states[i, U + 1] = running_max, running_sum
        cuda.syncthreads()  # no warp needs the keys any more
        stage_rows(v_MU, start, count, tile)
        for i in range(first + warp, last, WARPS):
            for u in range(lane, U, 32):
                a = float32(0)
                for j in range(count):
                    a += weights[i, j] * tile[j, u]
                states[i, u] += a
        cuda.syncthreads()  # nor the values


@cuda.jit(device=True)
def stage_rows(rows_MX, start, count, tile):
    """Rows `start` and on into shared memory: a warp for each row, so that its loads lie side by side."""
    warp, lane = cuda.threadIdx.x >> 5, cuda.threadIdx.x & 31
    for j in range(warp, count, WARPS):
        for d in range(lane, rows_MX.shape[1], 32):
            tile[j, d] = float32(rows_MX[start + j, d])
    cuda.syncthreads()


@cuda.jit(device=True)
def write_answers(buffers, tile_head, count, U, a_RX):
    """Writes sums divided by weights of each query of the tile into a_RX, a warp for each query."""
    _, _, _, states = buffers
    warp, lane = cuda.threadIdx.x >> 5, cuda.threadIdx.x & 31
    for i in range(warp, count, WARPS):
        r, h = row_and_head_of_query(i, tile_head)
        for u in range(lane, U, 32):
            a_RX[r, h * U + u] = states[i, u] / states[i, U + 1]


@cuda.jit(device=True)
def write_partials(buffers, tile_head, count, U, partials_RHX):
    """The partial result of this block's range: U sums, running_max and running_sum of each query."""
    _, _, _, states = buffers
    warp, lane = cuda.threadIdx.x >> 5, cuda.threadIdx.x & 31
    for i in range(warp, count, WARPS):
        r, h = row_and_head_of_query(i, tile_head)
        for u in range(lane, U + 2, 32):
            partials_RHX[r, h, u] = states[i, u]


# Split-KV: blocks read ranges of a long cache, and a second kernel merges their partial results.


@cuda.jit
def merge_ranges(partials_XRHX, a_RX):
    """Joins the ranges' partial results, a thread for each number; a range of which a row sees nothing counts 0.

    Grid ceil(RHU / 128), block 128. A thread reads 16 bytes a range and writes 4.
    """
    P, R, H, _ = partials_XRHX.shape
    U = a_RX.shape[1] // H
    n = cuda.grid(1)
    if n >= R * H * U:
        return
    r, h, u = n // (H * U), n // U % H, n % U
    running_max = MINUS_INF
    for p in range(P):
        running_max = max(running_max, partials_XRHX[p, r, h, U])
    a, running_sum = float32(0), float32(0)
    for p in range(P):
        keep = math.exp(partials_XRHX[p, r, h, U] - running_max)
        a += keep * partials_XRHX[p, r, h, u]
        running_sum += keep * partials_XRHX[p, r, h, U + 1]
    a_RX[r, h * U + u] = a / running_sum


def launch_split_kv(kernel, grid, q_RHK, cache, scale, positions, partials_XRHX, a_RX):
    """Cuts `positions` into ranges, a third axis of the grid, and merges the partial results of `kernel`."""
    ranges = len(partials_XRHX)
    length = -(-positions // ranges)
    launch(kernel, (*grid, ranges), THREADS, q_RHK, *cache, np.float32(scale), length, partials_XRHX)
    launch(merge_ranges, -(-a_RX.size // THREADS), THREADS, partials_XRHX, a_RX)
    return a_RX


def number_of_ranges(blocks: int, positions: int) -> int:
    """How many ranges to cut the positions into where there are so few blocks otherwise; 1 where there are enough."""
    return max(1, min(ENOUGH // blocks, positions // SHORTEST))


def scratch_for_ranges(q_RHK, k_XGMK, v_XGMU, positions, workspace):
    """partials_XRHX: workspace for the partial results of all ranges; None where the positions are not cut.

    Fewer caches are cut into more ranges each. The workspace is for as many ranges as all caches may have together, so
    that a batch's workspace is enough for the sentences that are left of it.
    """
    (R, H, _), X, blocks = q_RHK.shape, len(k_XGMK), math.prod(grid_for(q_RHK, k_XGMK))
    ranges, most = number_of_ranges(blocks, positions), number_of_ranges(1, positions)
    if most == 1 or has_wide_heads(k_XGMK, v_XGMU):
        return None
    together = min(X * ENOUGH // blocks, X * most)
    scratch_XXHX = scratch(workspace, (together, R // X, H, v_XGMU.shape[3] + 2), q_RHK)
    return None if ranges == 1 else scratch_XXHX[: X * ranges].reshape(ranges, R, H, -1)


def grid_for(q_RHK, k_XGMK) -> tuple[int, int]:
    """(caches and key/value heads, blocks for the queries that share one)."""
    R, H, _ = q_RHK.shape
    X, G = k_XGMK.shape[:2]
    return X * G, -(-(R // X * (H // G)) // QUERIES)


def has_wide_heads(k_XGMK, v_XGMU) -> bool:
    """Whether such heads do not fit into shared memory."""
    return max(k_XGMK.shape[3], v_XGMU.shape[3]) > WIDEST


def make_result_array(q_RHK, cache, out):
    """Makes the array of the answer. Raises OptionError where the kernels do not compute in these types."""
    narrow = [array.dtype for array in cache if array.dtype not in (np.float32, np.float16)]
    if q_RHK.dtype != np.float32 or narrow:
        raise OptionError(
            f"the kernels of attention take queries in float32, keys and values in float32 or float16, not"
            f" {(narrow or [q_RHK.dtype])[0]}: the reference takes float64 too"
        )
    R, H, _ = q_RHK.shape
    return np.empty_like(q_RHK, shape=(R, H * cache[1].shape[3])) if out is None else out


# What the kernels are compiled and type-checked for, without a GPU. Queries are a view of what a product gave.
QUERIES_RHK, RESULT_RX, NUMBERS_X = float32[:, :, :], float32[:, ::1], int64[::1]
CACHES = (float32[:, :, :, ::1], types.float16[:, :, :, ::1])
BIAS = QUERIES_RHK, NUMBERS_X, int64  # a position bias
SCORES_RHM, PARTIALS_XRHX = float32[:, :, ::1], float32[:, :, :, ::1]
SIGNATURES = {
    scores_of_part: [(QUERIES_RHK, m, NUMBERS_X, NUMBERS_X, float32, int64, SCORES_RHM) for m in CACHES],
    add_position_bias: [(SCORES_RHM, *BIAS, NUMBERS_X)],
    softmax_of_rows: [(SCORES_RHM,)],
    sums_of_part: [(SCORES_RHM, m, NUMBERS_X, NUMBERS_X, int64, RESULT_RX) for m in CACHES],
    merge_ranges: [(PARTIALS_XRHX, RESULT_RX)],
}
REGISTERS = {merge_ranges: 64}
