"""Attention inside each sentence: a GEMM, mask and softmax in one kernel, a GEMM, heads back.

The kernels are LightSeq's `ker_correlation_softmax_encself` and `ker_arrange_atten_output` (section 2.1).

The two products are the library's, for tensor cores are what they are made for; see `matmul` in device/matmul.py.

1. A kernel for each elementary operation: heads in front of rows (for queries, keys and values), scale, mask, maximum,
   difference, exponential, sum, quotient, heads back. All scores go to memory and come back seven times.
2. Between the products one kernel, a warp for each row of scores: it scales and masks on the way, and reads and writes
   a row three times, the last two times from the cache. The products read heads by their strides, so that nothing is
   laid out for them. What they give lies head by head, and a second kernel puts the heads side by side.
3. A sentence after the other, and of a long one a block of queries after the other: its scores take at most 64 MiB,
   and a good part of them is read while it is still in the L2 cache. If causal, a block meets the keys that one of its
   queries sees. The softmax reads a score once and writes a weight once: a row stays in registers. The second product
   writes where the result belongs, rows H*U numbers apart. Where queries, keys and values are float16, so are the
   weights, and the products run on tensor cores with float32 sums.
4. One pass: a block takes 16 queries of a head and goes over the keys that they see, 32 at a time in shared memory, by
   online softmax. No score goes to memory, and each key is read once for 16 queries. All sums are float32's, without
   tensor cores: to be read beside version 3, not to be run in its place.
5. Short sentences, and sources that a single token sees, in one launch: a warp for each query and head, by online
   softmax. A lane reads a key by 128-bit loads, where they lie so. Version 3 has three launches for each of them.

Floor of version 3, for a source of 1,024 tokens and 16 heads of 64 numbers in float16 on an H100: 67 MB of scores
written and read, 34 MB of weights written and read, at 2.5 TB/s 80 us; the products are 4.3 GFLOP, 10 us. Predicted:
100 us a sentence and layer. Not measured.

Version 4 reads 0.27 GB of that source's keys and values from L2, 49 us at 5.5 TB/s. Its 2.1 G multiplications take 64
us at the peak without tensor cores. But four of them need five reads of shared memory for the scores, and three for the
weighted sums: 67 M reads of a warp, one a cycle and multiprocessor, take 0.3 ms. Predicted 0.3 ms, three times version
3. `minidecode predict prefill` makes it far slower: its model knows one loop of a kernel, and this one has four. In
version 5 every query reads all keys and values for itself: 4.3 GB, 0.8 ms. benchmarks/gpu_rows.py times both at 1,024
positions. Not measured.

In version 2 scores have as many columns as the longest sentence has keys; those behind a shorter one's last key are
never read.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, cuda, float32, int32, int64
from numba.core.types import float16

from ..device.arrays import address_of, fetch_constant
from ..device.launch import launch
from ..device.matmul import matmul
from ..errors import OptionError
from ..reference import empty
from ..reference.prefill import sentence_slices
from .common.grids import launch_thread_per_number
from .common.head_stacks import stack_heads_by_group
from .common.position_bias import bias_arguments, bias_at
from .common.reduction import THREADS, WARPS, block_max, block_sum, warp_max, warp_sum
from .common.rows import LOWEST
from .common.vector_load import wide_load, wide_store

NOTHING = float32(-np.inf)  # the score of what is not seen
SCORES = 2**24  # that version 3 makes at a time: 64 MiB, and as much for the weights, half of it in float16
CAUSAL_ROWS = 512  # of a block of version 3 where queries see what is before them: 1,024 of them skip a quarter
WHOLE_ROWS = 8  # numbers: where rows of scores begin at multiples of it, tensor cores read them at full speed
QUERIES, KEYS = 16, 32  # of a tile of version 4
OF_WARP = QUERIES // WARPS  # queries
COLUMNS = 4  # of the values that a lane of versions 4 and 5 sums: heads of up to 128 numbers
WIDEST_TILE = 32 * COLUMNS
PADDED = WIDEST_TILE + 1  # from key to key in shared memory: 32 lanes that read a column read 32 banks
SUMS = OF_WARP * COLUMNS
WORTH_PRODUCTS = 2**18  # scores a sentence: version 5 computes fewer while three launches would be under way


def attend_prefill_v1(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    """Attention inside each sentence, a kernel for each elementary operation, in float32.

    Eleven launches, a thread per number in blocks of 128, and two products of the library. Scores, 4RHM bytes for M
    keys of the longest sentence, are written and read back seven times.
    """
    q_RHK, k_XGK, v_XGU = cast_to_float32(q_RHK, k_XGK, v_XGU)
    q_HRK, k_GXK, v_GXU = (copy_heads_in_front(x) for x in (q_RHK, k_XGK, v_XGU))
    q_RHK, k_XGK, v_XGU = (x.transpose(1, 0, 2) for x in (q_HRK, k_GXK, v_GXU))
    rows, scores_RHM = score_sentences(q_RHK, k_XGK, q_offsets_X, k_offsets_X, make=np.zeros_like)
    bounds = q_offsets_X, k_offsets_X, causal, window or len(k_XGK)
    top_RH, total_RH = (np.empty_like(scores_RHM, shape=scores_RHM.shape[:2]) for _ in range(2))
    launch_thread_per_number(scale_scores, scores_RHM, np.float32(scale))
    add_position_bias(scores_RHM, 1.0, bias, q_offsets_X, k_offsets_X, causal)
    launch_thread_per_number(mask_scores, scores_RHM, *bounds)
    launch_thread_per_number(find_row_maxima, top_RH, scores_RHM)
    launch_thread_per_number(subtract_row_maximum, scores_RHM, top_RH)
    launch_thread_per_number(exponentiate_scores, scores_RHM)
    launch_thread_per_number(sum_row_exponentials, total_RH, scores_RHM)
    launch_thread_per_number(divide_by_row_sum, scores_RHM, total_RH)
    return sum_weighted_values(scores_RHM, v_XGU, rows, out)


def copy_heads_in_front(x_RHX):
    """A copy x_HRX of x_RHX.

    Launches `copy_number_to_head` in ceil(RHX / 128) blocks of 128. Reads and writes 4RHX bytes.
    """
    R, H, X = x_RHX.shape
    x_HRX = np.empty_like(x_RHX, shape=(H, R, X), order="C")
    launch_thread_per_number(copy_number_to_head, x_HRX, x_RHX)
    return x_HRX


@cuda.jit
def copy_number_to_head(x_HRX, x_RHX):
    """Copies one number of x_RHX to x_HRX.

    Grid ceil(RHX / 128), block 128. A thread reads 4 bytes and writes 4.
    """
    _, R, X = x_HRX.shape
    i = cuda.grid(1)
    if i < x_HRX.size:
        h, r, x = i // (R * X), i // X % R, i % X
        x_HRX[h, r, x] = x_RHX[r, h, x]


@cuda.jit
def scale_scores(scores_RHM, scale):
    """Scales one score in place.

    Grid ceil(RHM / 128), block 128. A thread reads 4 bytes and writes 4.
    """
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        scores_RHM[i // (H * M), i // M % H, i % M] *= scale


@cuda.jit
def mask_scores(scores_RHM, q_offsets_X, k_offsets_X, causal, window):
    """Sets a score that its row does not see to minus infinity.

    Grid ceil(RHM / 128), block 128. A thread reads the offsets up to its sentence, and writes 4 bytes or none.
    """
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        begin, end, _ = keys_seen_by_row(i // (H * M), q_offsets_X, k_offsets_X, causal, window)
        if not begin <= i % M < end:
            scores_RHM[i // (H * M), i // M % H, i % M] = NOTHING


@cuda.jit
def find_row_maxima(top_RH, scores_RHM):
    """The largest score of a row and head.

    Grid ceil(RH / 128), block 128. A thread reads 4M bytes and writes 4.
    """
    i, H = cuda.grid(1), top_RH.shape[1]
    if i < top_RH.size:
        top = NOTHING
        for m in range(scores_RHM.shape[2]):
            top = max(top, scores_RHM[i // H, i % H, m])
        top_RH[i // H, i % H] = top


@cuda.jit
def subtract_row_maximum(scores_RHM, top_RH):
    """Takes the maximum off one score in place.

    Grid ceil(RHM / 128), block 128. A thread reads 8 bytes and writes 4.
    """
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        scores_RHM[i // (H * M), i // M % H, i % M] -= top_RH[i // (H * M), i // M % H]


@cuda.jit
def exponentiate_scores(scores_RHM):
    """The exponential of one score in place.

    Grid ceil(RHM / 128), block 128. A thread reads 4 bytes and writes 4.
    """
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        r, h, m = i // (H * M), i // M % H, i % M
        scores_RHM[r, h, m] = math.exp(scores_RHM[r, h, m])


@cuda.jit
def sum_row_exponentials(total_RH, scores_RHM):
    """The sum of a row and head's exponentials.

    Grid ceil(RH / 128), block 128. A thread reads 4M bytes and writes 4.
    """
    i, H = cuda.grid(1), total_RH.shape[1]
    if i < total_RH.size:
        total = float32(0)
        for m in range(scores_RHM.shape[2]):
            total += scores_RHM[i // H, i % H, m]
        total_RH[i // H, i % H] = total


@cuda.jit
def divide_by_row_sum(scores_RHM, total_RH):
    """Divides one exponential by its sum in place.

    Grid ceil(RHM / 128), block 128. A thread reads 8 bytes and writes 4.
    """
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        scores_RHM[i // (H * M), i // M % H, i % M] /= total_RH[i // (H * M), i // M % H]


def attend_prefill_v2(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    """Attention inside each sentence, one kernel between two products of the library, in float32.

    Launches `softmax_of_seen` in ceil(RH / 4) blocks and `copy_heads_side_by_side`, of 128. Of each score that is seen
    reads 12 bytes and writes 8.
    """
    q_RHK, k_XGK, v_XGU = cast_to_float32(q_RHK, k_XGK, v_XGU)
    rows, scores_RHM = score_sentences(q_RHK, k_XGK, q_offsets_X, k_offsets_X)
    blocks = -(-scores_RHM.shape[0] * scores_RHM.shape[1] // WARPS)
    bounds = q_offsets_X, k_offsets_X, causal, window or len(k_XGK)
    scale = add_position_bias(scores_RHM, scale, bias, q_offsets_X, k_offsets_X, causal)
    launch(softmax_of_seen, blocks, THREADS, scores_RHM, np.float32(scale), *bounds)
    return sum_weighted_values(scores_RHM, v_XGU, rows, out)


def add_position_bias(scores_RHM, scale, bias, q_offsets_X, k_offsets_X, causal):
    """Scales the scores and adds the bias -> the scale that is left to do; without a bias nothing is done."""
    if bias is None:
        return scale
    biases = bias.bias_XHP, bias.bucket_L, bias.zero
    launch_thread_per_number(
        scale_and_add_bias, scores_RHM, np.float32(scale), *biases, q_offsets_X, k_offsets_X, causal
    )
    return 1.0


@cuda.jit
def scale_and_add_bias(scores_RHM, scale, bias_XHP, bucket_L, zero, q_offsets_X, k_offsets_X, causal):
    """Scales one score of a row's own sentence and adds the position bias of its distance.

    Grid ceil(RHM / 128), block 128. A thread reads 16 bytes and the offsets up to its sentence, and writes 4.
    """
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        r, h, m = i // (H * M), i // M % H, i % M
        b = 0
        while q_offsets_X[b + 1] <= r:
            b += 1
        if m < k_offsets_X[b + 1] - k_offsets_X[b]:
            n = position_of_query(r, b, q_offsets_X, k_offsets_X) if causal else r - q_offsets_X[b]
            bias = bias_at(bias_XHP, bucket_L, r, h, n - m + zero)
            scores_RHM[r, h, m] = scale * scores_RHM[r, h, m] + bias


@cuda.jit
def softmax_of_seen(scores_RHM, scale, q_offsets_X, k_offsets_X, causal, window):
    """The softmax of one row of scores in place, a warp for each; what a row does not see gets weight 0.

    Grid ceil(RH / 4), block 128. Reads 12 bytes and writes 8 for each score that is seen. A lane reads back what it
    wrote itself.
    """
    R, H, _ = scores_RHM.shape
    row, lane = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if row >= R * H:
        return
    begin, end, M = keys_seen_by_row(row // H, q_offsets_X, k_offsets_X, causal, window)
    scores_M = scores_RHM[row // H, row % H]
    top, total = NOTHING, float32(0)
    for m in range(lane, end, 32):
        if m >= begin:
            top = max(top, scale * scores_M[m])
    top = warp_max(top)
    for m in range(lane, end, 32):
        if m >= begin:
            scores_M[m] = math.exp(scale * scores_M[m] - top)
            total += scores_M[m]
    total = warp_sum(total)
    for m in range(lane, M, 32):
        scores_M[m] = scores_M[m] / total if begin <= m < end else float32(0)


@cuda.jit(device=True)
def keys_seen_by_row(r, q_offsets_X, k_offsets_X, causal, window):
    """(begin, end, M): row r sees begin <= m < end of the M keys of its sentence."""
    b = 0
    while q_offsets_X[b + 1] <= r:
        b += 1
    M = k_offsets_X[b + 1] - k_offsets_X[b]
    if not causal:
        return int64(0), M, M
    n = position_of_query(r, b, q_offsets_X, k_offsets_X)
    return max(n + 1 - window, 0), n + 1, M


@cuda.jit(device=True)
def position_of_query(r, b, q_offsets_X, k_offsets_X):
    """The position of a query of causal sentence b, whose queries are its last positions."""
    return k_offsets_X[b + 1] - k_offsets_X[b] - (q_offsets_X[b + 1] - r)


@cuda.jit
def copy_heads_side_by_side(a_RHU, a_HRU):
    """Copies one number of a_HRU to a_RHU.

    Grid ceil(RHU / 128), block 128. A thread reads 4 bytes and writes 4.
    """
    _, H, U = a_RHU.shape
    i = cuda.grid(1)
    if i < a_RHU.size:
        r, h, u = i // (H * U), i // U % H, i % U
        a_RHU[r, h, u] = a_HRU[h, r, u]


def score_sentences(q_RHK, k_XGK, q_offsets_X, k_offsets_X, make=np.empty_like):
    """(rows, scores_RHM): (query rows, key rows) of each sentence, and q . k of each row and head.

    The H/G query heads of a group meet the same keys.
    """
    (R, H, K), G, rows = q_RHK.shape, k_XGK.shape[1], list(sentence_slices(q_offsets_X, k_offsets_X))
    longest = max(k_rows.stop - k_rows.start for _, k_rows in rows)
    scores_RHM = make(q_RHK, shape=(R, H, longest), order="C")
    q_GXRK = q_RHK.reshape(R, G, H // G, K).transpose(1, 2, 0, 3)
    k_GKX, scores_GXRM = k_XGK.transpose(1, 2, 0), scores_RHM.reshape(R, G, H // G, longest).transpose(1, 2, 0, 3)
    matmul((q_GXRK[:, :, q], k_GKX[:, None, :, k], scores_GXRM[:, :, q, : k.stop - k.start]) for q, k in rows)
    return rows, scores_RHM


def sum_weighted_values(weights_RHM, v_XGU, rows, out):
    """The weighted sums of the values, which the product leaves head by head, side by side."""
    (R, H, M), (_, G, U) = weights_RHM.shape, v_XGU.shape
    a_HRU = np.empty_like(weights_RHM, shape=(H, R, U), order="C")
    weights_GXRM, v_GXU = weights_RHM.reshape(R, G, H // G, M).transpose(1, 2, 0, 3), v_XGU.transpose(1, 0, 2)
    a_GXRU = a_HRU.reshape(G, H // G, R, U)
    matmul((weights_GXRM[:, :, q, : k.stop - k.start], v_GXU[:, None, k], a_GXRU[:, :, q]) for q, k in rows)
    a_RX = np.empty_like(a_HRU, shape=(R, H * U)) if out is None else out
    launch_thread_per_number(copy_heads_side_by_side, a_RX.reshape(R, H, U), a_HRU)
    return a_RX


def attend_prefill_v3(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    """Attention inside each sentence, block of queries by block, whose scores take at most 64 MiB.

    For each block two products of the library, and a softmax that reads 4 bytes a score and writes a weight of 4 or 2.
    """
    refuse_other_types(q_RHK, k_XGK, v_XGU)
    rows = list(sentence_slices(fetch_constant(q_offsets_X), fetch_constant(k_offsets_X)))
    a_RX = make_float32_result(q_RHK, v_XGU, out)
    return attend_by_products(q_RHK, k_XGK, v_XGU, rows, scale, causal, window, bias, k_offsets_X, a_RX)


def attend_prefill_v4(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    """Attention inside each sentence in one pass, by tiles of 16 queries and 32 keys; no score goes to memory.

    Launches `attend_by_tiles` as (ceil(R / 16), H) blocks of 128. A block reads s(K + U) bytes for each key that one of
    its queries sees and sK for each query, and writes 4U a query; s: bytes of a number. Heads wider than 128 numbers,
    and sentences of fewer than two queries on average, are left to version 5.
    """
    refuse_other_types(q_RHK, k_XGK, v_XGU)
    list(sentence_slices(fetch_constant(q_offsets_X), fetch_constant(k_offsets_X)))  # raises where a query sees no key
    (R, H, K), U = q_RHK.shape, v_XGU.shape[2]
    if max(K, U) > WIDEST_TILE or 2 * (len(q_offsets_X) - 1) > R:
        return attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, bias, out)
    a_RX = make_float32_result(q_RHK, v_XGU, out)
    biases = bias_arguments(bias, a_RX.reshape(R, H, U), k_offsets_X)
    bounds = q_offsets_X, k_offsets_X, causal, window or len(k_XGK)
    blocks = -(-R // QUERIES), H
    launch(attend_by_tiles, blocks, THREADS, q_RHK, k_XGK, v_XGU, *bounds, np.float32(scale), *biases, a_RX)
    return a_RX


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    """Attention inside each sentence, short ones by one launch of a warp for each query and head.

    Version 5: `warp_per_query` in ceil(RH / 4) blocks of 128. Each query head reads the keys and values that it sees,
    s(K + U) bytes each, and writes 4U; s: bytes of a number. Version 3 where sentences are long, or heads wider than
    its lanes have sums for.
    """
    refuse_other_types(q_RHK, k_XGK, v_XGU)
    (R, H, _), U = q_RHK.shape, v_XGU.shape[2]
    rows = list(sentence_slices(fetch_constant(q_offsets_X), fetch_constant(k_offsets_X)))
    scores = H * sum((q.stop - q.start) * (k.stop - k.start) for q, k in rows)
    a_RX = make_float32_result(q_RHK, v_XGU, out)
    if U > 32 * COLUMNS or scores > WORTH_PRODUCTS * len(rows):
        return attend_by_products(q_RHK, k_XGK, v_XGU, rows, scale, causal, window, bias, k_offsets_X, a_RX)
    biases = bias_arguments(bias, a_RX.reshape(R, H, U), k_offsets_X)
    bounds = q_offsets_X, k_offsets_X, causal, window or len(k_XGK)
    kernel = warp_per_query_wide if can_load_wide(q_RHK, k_XGK) else warp_per_query
    launch(kernel, -(-R * H // WARPS), THREADS, q_RHK, k_XGK, v_XGU, *bounds, np.float32(scale), *biases, a_RX)
    return a_RX


def refuse_other_types(q_RHK, k_XGK, v_XGU):
    """Raises OptionError unless q, k and v are all float32 or all float16."""
    kinds = {array.dtype.name for array in (q_RHK, k_XGK, v_XGU)}
    if kinds not in ({"float32"}, {"float16"}):
        raise OptionError(
            f"the kernels of cuda/prefill.py take float32 or float16, all three alike, not {', '.join(sorted(kinds))}:"
            " the reference takes float64 too"
        )


def cast_to_float32(q_RHK, k_XGK, v_XGU):
    """Copies of float16 arrays in float32, in which versions 1 and 2 compute; of float32 the arrays themselves."""
    refuse_other_types(q_RHK, k_XGK, v_XGU)
    return tuple(array.astype(np.float32, copy=False) for array in (q_RHK, k_XGK, v_XGU))


def make_float32_result(q_RHK, v_XGU, out):
    """Makes the array of the answer: float32, whatever is multiplied."""
    shape = len(q_RHK), q_RHK.shape[1] * v_XGU.shape[2]
    return empty(q_RHK, shape, np.float32) if out is None else out


def attend_by_products(q_RHK, k_XGK, v_XGU, rows, scale, causal, window, bias, k_offsets_X, a_RX):
    """Version 3, of these (query rows, key rows)."""
    (R, H, _), U = q_RHK.shape, v_XGU.shape[2]
    a_RHU, blocks = a_RX.reshape(R, H, U), list(split_into_query_blocks(rows, H, causal, window))
    numbers = max((H * (q.stop - q.start) * padded_width_of(k) for q, k, _ in blocks), default=0)
    scores_X, weights_X = (empty(x, numbers) for x in (a_RX, q_RHK))
    for q, k, ahead in blocks:
        N, M, width = q.stop - q.start, k.stop - k.start, padded_width_of(k)
        scores_HNM, weights_HNM = (x[: H * N * width].reshape(H, N, width)[..., :M] for x in (scores_X, weights_X))
        matmul(stack_heads_by_group(q_RHK[q].transpose(1, 0, 2), k_XGK[k].transpose(1, 2, 0), scores_HNM))
        shape = (np.int32(n) for n in (H * N, N, M, width))
        sight = causal, np.int32(ahead), np.int32(min(window or M, M)), np.float32(scale)
        biases = bias_arguments(bias and bias.of_rows(q), a_RHU, k_offsets_X)
        kernel, rows_a_block = choose_softmax_kernel(M)
        launch(kernel, -(-H * N // rows_a_block), THREADS, weights_X, scores_X, *shape, *sight, *biases)
        matmul(stack_heads_by_group(weights_HNM, v_XGU[k].transpose(1, 0, 2), a_RHU[q].transpose(1, 0, 2)))
    return a_RX


def split_into_query_blocks(rows, H, causal, window):
    """(query rows, the keys that one of them sees, how far its first query is ahead of its first key)."""
    for q, k in rows:
        N, M = q.stop - q.start, k.stop - k.start
        most = max(1, SCORES // (H * padded_width_of(k)))
        blocks = -(-N // (min(most, CAUSAL_ROWS) if causal else most))
        size = -(-N // blocks)
        for first in range(0, N, size):
            last = min(first + size, N)
            position = M - N + first if causal else first
            begin, end = (max(0, position + 1 - (window or M)), M - N + last) if causal else (0, M)
            yield slice(q.start + first, q.start + last), slice(k.start + begin, k.start + end), position - begin


def padded_width_of(k):
    """Numbers from row to row of the scores with these keys."""
    return -(-(k.stop - k.start) // WHOLE_ROWS) * WHOLE_ROWS


def make_softmax_kernel(threads, quads):
    """A kernel in which this many threads, a warp or a block, keep a row of at most 4 * threads * quads scores.

    Column c is the key c positions behind the block's first; what a row does not see gets weight 0. Columns from M to
    `width` belong to no key, and may hold anything.
    """
    columns, rows_a_block = 4 * quads, THREADS // threads
    largest, sum_of = (warp_max, warp_sum) if threads == 32 else (largest_of_block, sum_of_block)

    @cuda.jit
    def softmax_kept(
        weights_X, scores_X, rows, N, M, width, causal, ahead, window, scale, bias_XHP, bucket_L, zero
    ):  # fmt: skip
        """The softmax of one row of scores, which stays in registers.

        Grid ceil(HN / rows of a block), block 128. Reads 4M bytes a row and writes M weights.
        """
        kept = cuda.local.array(columns, float32)
        t, row = cuda.threadIdx.x % threads, int32(cuda.blockIdx.x * rows_a_block + cuda.threadIdx.x // threads)
        if row >= rows:  # a whole warp, or block, leaves
            return
        h, n, first = row // N, row % N, int32(row * width)
        begin, end = seen_columns(n, M, causal, ahead, window)
        top, total = NOTHING, float32(0)
        for i in range(quads):
            c = int32(4 * (t + threads * i))
            if c < end:  # a condition of the load itself: all loads are under way at once
                w, x, y, z = wide_load(scores_X, first + c)
                kept[4 * i], kept[4 * i + 1], kept[4 * i + 2], kept[4 * i + 3] = w, x, y, z
        for i in range(quads):
            c = int32(4 * (t + threads * i))
            for k in range(4 * i, 4 * i + 4):
                score = kept[k] if c < end else NOTHING
                kept[k] = seen_score(score, c, h, n, begin, end, ahead, scale, bias_XHP, bucket_L, zero)
                c = int32(c + 1)
        for k in range(columns):
            top = max(top, kept[k])
        top = largest(top)
        for k in range(columns):
            kept[k] = math.exp(kept[k] - top)
            total += kept[k]
        part = float32(1) / sum_of(total)
        for i in range(quads):
            c = int32(4 * (t + threads * i))
            if c < M:
                w, x, y, z = kept[4 * i], kept[4 * i + 1], kept[4 * i + 2], kept[4 * i + 3]
                wide_store(weights_X, first + c, part * w, part * x, part * y, part * z)

    return softmax_kept


@cuda.jit(device=True)
def largest_of_block(mine):
    """The largest of the block's numbers, for every thread."""
    part = cuda.shared.array(WARPS, float32)
    return block_max(mine, part)


@cuda.jit(device=True)
def sum_of_block(mine):
    """The sum of the block's numbers, for every thread."""
    part = cuda.shared.array(WARPS, float32)
    return block_sum(mine, part)


@cuda.jit(device=True)
def seen_columns(n, M, causal, ahead, window):
    """(begin, end): query n of a block sees begin <= c < end."""
    if not causal:
        return int32(0), int32(M)
    end = int32(n + ahead + 1)
    return int32(max(end - window, 0)), end


@cuda.jit(device=True)
def seen_score(score, c, h, n, begin, end, ahead, scale, bias_XHP, bucket_L, zero):
    """The scaled score, bias added if there is one; of what is not seen NOTHING."""
    if c < begin or c >= end:
        return NOTHING
    if bias_XHP.shape[0] > 0:
        return scale * score + bias_at(bias_XHP, bucket_L, n, h, n + ahead - c + zero)
    return scale * score


softmax_of_256, softmax_of_1024 = make_softmax_kernel(32, 2), make_softmax_kernel(32, 8)
softmax_of_4096 = make_softmax_kernel(THREADS, 8)


@cuda.jit
def softmax_in_passes(
    weights_X, scores_X, rows, N, M, width, causal, ahead, window, scale, bias_XHP, bucket_L, zero
):  # fmt: skip
    """The softmax of one row of any length, by a block that reads it three times.

    Grid HN, block 128. Reads 12M bytes a row, and writes M weights.
    """
    t, row = cuda.threadIdx.x, int32(cuda.blockIdx.x)
    h, n, first = row // N, row % N, int64(row) * width
    begin, end = seen_columns(n, M, causal, ahead, window)
    top, total = NOTHING, float32(0)
    for c in range(begin + t, end, THREADS):
        top = max(top, seen_score(scores_X[first + c], c, h, n, begin, end, ahead, scale, bias_XHP, bucket_L, zero))
    top = largest_of_block(top)
    for c in range(begin + t, end, THREADS):
        score = seen_score(scores_X[first + c], c, h, n, begin, end, ahead, scale, bias_XHP, bucket_L, zero)
        total += math.exp(score - top)
    part = float32(1) / sum_of_block(total)
    for c in range(t, M, THREADS):
        score = seen_score(scores_X[first + c], c, h, n, begin, end, ahead, scale, bias_XHP, bucket_L, zero)
        weights_X[first + c] = part * math.exp(score - top)


def choose_softmax_kernel(M):
    """(kernel, rows in a block of it) for rows of this many scores."""
    for most, kernel in ((256, softmax_of_256), (1024, softmax_of_1024)):
        if most >= M:
            return kernel, WARPS
    return softmax_of_4096 if M <= 4096 else softmax_in_passes, 1


@cuda.jit
def attend_by_tiles(
    q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, causal, window, scale, bias_XHP, bucket_L, zero, a_RX
):  # fmt: skip
    """Sixteen queries of a head meet 32 keys at a time, by online softmax (common/online_softmax.py explains it).

    All threads stage a tile of keys and values in shared memory; a warp has four of the queries. A lane has the scores
    of a key with them, then columns of their weighted sums of values. Grid (ceil(R / 16), H), block 128, 42 KiB of
    shared memory. Reads s(K + U) bytes a key and sK a query, and writes 4U a query; s: bytes of a number.
    """
    keys, values = cuda.shared.array((KEYS, PADDED), float32), cuda.shared.array((KEYS, WIDEST_TILE), float32)
    queries, weights = cuda.shared.array((QUERIES, WIDEST_TILE), float32), cuda.shared.array((QUERIES, KEYS), float32)
    score, value = cuda.local.array(OF_WARP, float32), cuda.local.array(COLUMNS, float32)
    sums = cuda.local.array(SUMS, float32)
    running_max, running_sum = cuda.local.array(OF_WARP, float32), cuda.local.array(OF_WARP, float32)
    sight = cuda.local.array((3, OF_WARP), int32)  # of each query: its position, where what it sees begins, and ends
    R, K, U = int32(q_RHK.shape[0]), int32(q_RHK.shape[2]), int32(v_XGU.shape[2])
    lane, mine = int32(cuda.threadIdx.x % 32), int32(cuda.threadIdx.x // 32 * OF_WARP)  # the first of its queries
    h, first_row = int32(cuda.blockIdx.y), int32(cuda.blockIdx.x * QUERIES)
    g, last_row = h // int32(q_RHK.shape[1] // k_XGK.shape[1]), min(first_row + int32(QUERIES), R) - int32(1)
    for i in range(int32(cuda.threadIdx.x), QUERIES * K, THREADS):  # behind the last query comes the last one again
        queries[i // K, i % K] = scale * float32(q_RHK[min(first_row + i // K, last_row), h, i % K])
    for i in range(OF_WARP):
        r = min(first_row + mine + i, last_row)
        first, n, begin, end = position_and_keys(r, q_offsets_X, k_offsets_X, causal, window)
        sight[0, i], sight[1, i], sight[2, i] = int32(first + n), int32(first + begin), int32(first + end)
        running_max[i], running_sum[i] = LOWEST, float32(0)  # finite: -inf - -inf would be no number
        for c in range(COLUMNS):
            sums[i * COLUMNS + c] = float32(0)
    # What a later query sees neither begins nor ends earlier.
    first, _, begin, _ = position_and_keys(first_row, q_offsets_X, k_offsets_X, causal, window)
    last, _, _, end = position_and_keys(last_row, q_offsets_X, k_offsets_X, causal, window)
    for x in range(int32(first + begin), int32(last + end), KEYS):
        count = min(int32(KEYS), int32(last + end - x))
        stage_tile(keys, k_XGK, x, count, g)
        stage_tile(values, v_XGU, x, count, g)
        cuda.syncthreads()  # the tile is complete
        for i in range(OF_WARP):
            score[i] = float32(0)
        for d in range(K if lane < count else 0):
            for i in range(OF_WARP):
                score[i] += queries[mine + i, d] * keys[lane, d]
        for i in range(OF_WARP):
            if x + lane < sight[1, i] or x + lane >= sight[2, i]:
                score[i] = NOTHING
            elif bias_XHP.shape[0] > 0:
                score[i] += bias_at(bias_XHP, bucket_L, first_row + mine + i, h, sight[0, i] - x - lane + zero)
            top = max(running_max[i], warp_max(score[i]))
            shrink, weight = math.exp(running_max[i] - top), math.exp(score[i] - top)
            running_max[i], running_sum[i] = top, shrink * running_sum[i] + warp_sum(weight)
            weights[mine + i, lane] = weight
            for c in range(COLUMNS):
                sums[i * COLUMNS + c] *= shrink
        cuda.syncwarp()  # the weights of the warp's queries are complete
        for j in range(count):
            for c in range(COLUMNS):
                value[c] = values[j, lane + 32 * c] if lane + 32 * c < U else float32(0)
            for i in range(OF_WARP):
                weight = weights[mine + i, j]
                if weight != 0:  # what a query does not see may be no number
                    for c in range(COLUMNS):
                        sums[i * COLUMNS + c] += weight * value[c]
        cuda.syncthreads()  # the tile has been read: the next one may come
    for i in range(OF_WARP):
        for c in range(COLUMNS):
            if first_row + mine + i <= last_row and lane + 32 * c < U:
                a_RX[first_row + mine + i, h * U + lane + 32 * c] = sums[i * COLUMNS + c] / running_sum[i]


@cuda.jit(device=True)
def stage_tile(tile, numbers_XGK, x, count, g):
    """Head g of `count` keys or values from x on; neighbouring threads read neighbouring numbers."""
    K = int32(numbers_XGK.shape[2])
    for i in range(int32(cuda.threadIdx.x), count * K, THREADS):
        tile[i // K, i % K] = float32(numbers_XGK[x + i // K, g, i % K])


def make_query_kernel(product):
    """A kernel of version 5; `product` multiplies a query and a key."""

    @cuda.jit
    def warp_per_query(
        q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, causal, window, scale, bias_XHP, bucket_L, zero, a_RX
    ):
        """A warp for a query and head, 32 keys at a time: a lane has the score of a key, then columns of the values.

        Grid ceil(RH / 4), block 128. Reads s(2K + U) bytes for each key that is seen, the query with each, and writes
        4U; s: bytes of a number.
        """
        sums, weights = cuda.local.array(COLUMNS, float32), cuda.shared.array((WARPS, 32), float32)
        (R, H, _), U, warp, lane = q_RHK.shape, v_XGU.shape[2], cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
        row = cuda.blockIdx.x * WARPS + warp
        if row >= R * H:
            return
        r, h = row // H, row % H
        g = h // (H // k_XGK.shape[1])
        first, n, begin, end = position_and_keys(r, q_offsets_X, k_offsets_X, causal, window)
        running_max, running_sum = NOTHING, float32(0)
        for i in range(COLUMNS):
            sums[i] = float32(0)
        for m in range(begin, end, 32):
            score = NOTHING
            if m + lane < end:
                score = scale * product(q_RHK[r, h], k_XGK[first + m + lane, g])
                if bias_XHP.shape[0] > 0:
                    score += bias_at(bias_XHP, bucket_L, r, h, n - m - lane + zero)
            top = max(running_max, warp_max(score))
            shrink, weight = math.exp(running_max - top), math.exp(score - top)
            running_max, running_sum = top, shrink * running_sum + warp_sum(weight)
            weights[warp, lane] = weight
            cuda.syncwarp()
            for i in range(COLUMNS):
                if lane + 32 * i < U:
                    sums[i] *= shrink
                    for j in range(min(32, end - m)):
                        sums[i] += weights[warp, j] * float32(v_XGU[first + m + j, g, lane + 32 * i])
            cuda.syncwarp()  # the weights have been read: the next ones may come
        for i in range(COLUMNS):
            if lane + 32 * i < U:
                a_RX[r, h * U + lane + 32 * i] = sums[i] / running_sum

    return warp_per_query


@cuda.jit(device=True)
def dot_by_numbers(q_K, k_K):
    """q . k, number by number: a warp's lanes read rows of keys far apart."""
    total = float32(0)
    for k in range(q_K.size):
        total += float32(q_K[k]) * float32(k_K[k])
    return total


@cuda.jit(device=True)
def dot_by_wide_loads(q_K, k_K):
    """q . k by 128-bit loads, so that each visit to a row brings four numbers, or eight halves."""
    total, together = float32(0), 16 // k_K.itemsize
    for k in range(0, q_K.size, together):
        q, key = wide_load(q_K, k), wide_load(k_K, k)
        for i in range(together):
            total += q[i] * key[i]
    return total


warp_per_query, warp_per_query_wide = make_query_kernel(dot_by_numbers), make_query_kernel(dot_by_wide_loads)


def can_load_wide(q_RHK, k_XGK):
    """Whether each query and each key begins and ends at a multiple of 16 bytes."""
    return all(
        a.strides[2] == a.itemsize
        and all(n % 16 == 0 for n in (address_of(a), *a.strides[:2], a.shape[2] * a.itemsize))
        for a in (q_RHK, k_XGK)
    )


@cuda.jit(device=True)
def position_and_keys(r, q_offsets_X, k_offsets_X, causal, window):
    """(first, n, begin, end): query r is at position n, and sees keys first + m of its sentence, begin <= m < end."""
    b = sentence_of(r, q_offsets_X)
    first = k_offsets_X[b]
    if not causal:
        return first, r - q_offsets_X[b], int64(0), k_offsets_X[b + 1] - first
    n = position_of_query(r, b, q_offsets_X, k_offsets_X)
    return first, n, max(n + 1 - window, 0), n + 1


@cuda.jit(device=True)
def sentence_of(r, offsets_X):
    """The last sentence that begins at row r or before it, by halving."""
    low, high = int64(0), int64(offsets_X.size - 1)
    while high - low > 1:
        middle = (low + high) // 2
        if offsets_X[middle] <= r:
            low = middle
        else:
            high = middle
    return low


# What each kernel is compiled and type-checked for, without a GPU.
_HEADS, _SCORES, _OF_ROWS = float32[:, :, ::1], float32[:, :, ::1], float32[:, ::1]
_BIAS = float32[:, :, :], int64[::1], int64
_OF_BLOCK = (*[int32] * 4, boolean, int32, int32, float32, *_BIAS)
_KEPT = [(weights, float32[::1], *_OF_BLOCK) for weights in (float32[::1], float16[::1])]
_BOUNDS = (int64[::1], int64[::1], boolean, int64)
_OF_QUERIES = [(*[x[:, :, :]] * 3, *_BOUNDS, float32, *_BIAS, float32[:, ::1]) for x in (float32, float16)]
SIGNATURES = {
    copy_number_to_head: [(_HEADS, float32[:, :, :])],
    scale_scores: [(_SCORES, float32)],
    scale_and_add_bias: [(_SCORES, float32, float32[:, :, :], int64[::1], int64, int64[::1], int64[::1], boolean)],
    mask_scores: [(_SCORES, *_BOUNDS)],
    find_row_maxima: [(_OF_ROWS, _SCORES)],
    subtract_row_maximum: [(_SCORES, _OF_ROWS)],
    exponentiate_scores: [(_SCORES,)],
    sum_row_exponentials: [(_OF_ROWS, _SCORES)],
    divide_by_row_sum: [(_SCORES, _OF_ROWS)],
    softmax_of_seen: [(_SCORES, float32, *_BOUNDS)],
    copy_heads_side_by_side: [(_HEADS, _HEADS)],
    softmax_of_256: _KEPT,
    softmax_of_1024: _KEPT,
    softmax_of_4096: _KEPT,
    softmax_in_passes: _KEPT,
    attend_by_tiles: _OF_QUERIES,
    warp_per_query: _OF_QUERIES,
    warp_per_query_wide: _OF_QUERIES,
}
REGISTERS = {  # 32 of those of the softmax are a row's scores
    softmax_of_1024: 80, softmax_of_4096: 80, softmax_in_passes: 64, warp_per_query: 104, warp_per_query_wide: 104,
    attend_by_tiles: 160,  # sums of four queries; its shared memory leaves room for few blocks
}  # fmt: skip
