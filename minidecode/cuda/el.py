"""Attention straight on hidden states (EL, section 3.1).

1. A kernel for each product and one for the softmax, a thread for each number of each result. All scores go to memory
   and come back, and every head of every beam reads the hidden states of its sentence for itself, twice.
2. One kernel from the queries to the weighted sums. A block serves QUERIES heads and beams of one sentence: it stages
   a tile of hidden states in shared memory and uses it as keys and then as values, so that they are read once. The
   softmax goes along (online softmax): where a tile brings a larger score, what was summed so far is scaled down.
   Scores are never in memory.
3. The two products go to the library, each as one strided-batched product: a matrix for each sentence, with its heads
   and beams as rows. Between them is one kernel, a masked softmax in place. Scores are in memory again, but the
   products, nearly all of EL's operations, are done as fast as anybody does them: from float16 hidden states with
   `half` on tensor cores, otherwise in float32 and without.

Floor at EL's sizes (32 sentences of 4 beams, 1,024 positions, 16 heads of 64, float16): 67 MB of hidden states once,
28 us; and 8.6 GFLOP, 128 us without tensor cores, 11 us with. Predicted: version 3 108 us with `half`
(benchmarks/gpu_tables.py). Its products read hidden states twice, 75 us, those with the layer's weights are in float32,
23 us, and the softmax takes 10. So by version 3 EL should be 2.1 times as fast as a cache per beam, whose 537 MB take
225 us. One per sentence took 57 us (shared.py): version 3 is not faster than that, for it reads hidden states twice, as
many bytes as keys and values once. It keeps half their bytes. Version 2, which plans run, is predicted at 0.2 % of a
copy, some 14 ms (`minidecode predict el`): its warps wait, and shared memory alone allows 1.7 %. Not measured.

Version 3 belongs on a GPU. EL does H times the operations of multi-head attention, and those weigh on version 2, which
computes without tensor cores; it shows what attention is made of, needs no library, and is what plans run.

Hidden states may be float16 and are cast to float32 (version 3 makes a copy). Everything is computed in float32, unless
`half` says otherwise. The products with the layer's weights, which all sentences share, are kernels of their own in
versions 1 and 2, and the library's in version 3.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64

from ..device.launch import launch
from ..device.matmul import matmul
from ..errors import OptionError
from ..reference import empty
from .common.grids import launch_thread_per_number
from .common.head_stacks import stack_heads_by_group
from .common.hidden_sums import HIDDEN, refuse_other_types, sum_hidden_states, sum_hidden_states_v1
from .common.reduction import warp_max, warp_sum

THREADS = 256  # of a block in versions 2 and 3
WARPS = THREADS // 32
MINUS_INF = float32(-np.inf)


def attend_el_v1(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None):
    """Attention on hidden states h_BND by a kernel for each product and one for the softmax.

    Five launches, a thread for each number of each result. Each query head of each row reads the hidden states of its
    sentence twice: 2sRHND bytes; s: bytes of a number of h. Writes 4RHN bytes of scores twice, and 8RHD of q' and sums.
    """
    sums_RHD, _, total_RH = sum_hidden_states_v1(q_RHK, h_BND, begin_B, w_k_GKD, scale)
    return project_to_values(sums_RHD, total_RH, w_v_GUD, b_v_GU, out)


def attend_el(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None, *, workspace=None):
    """Attention on hidden states h_BND by one kernel between the products with W_k and W_v.

    Version 2: `sum_states_by_block` reads hidden states once for QUERIES heads and beams, sRHND / 4 bytes, and writes
    no scores. Hidden states that do not fit take version 1.
    """
    sums_RHD, _, total_RH = sum_hidden_states(q_RHK, h_BND, begin_B, w_k_GKD, scale, workspace)
    return project_to_values(sums_RHD, total_RH, w_v_GUD, b_v_GU, out)


def attend_el_v3(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None, *, half=False):
    """Two strided-batched products and a masked softmax between them; float16 hidden states are cast in a copy.

    half: hidden states are float16, and are multiplied as they are. q' and p are rounded to float16, since tensor cores
    take both sides in one type; they sum in float32, and so does the softmax. That is beyond what the row allows.
    A rounding moves x by r(x) = max(2^-11 |x|, 2^-25) at most; what is beyond 65,504 is lost. So score n moves by
    e_n <= sum_d r(q'_d) |h_nd|, its weight p_n by a factor of at most f_n = exp(e_n) sum_m p_m exp(e_m), and
    a_u, beside float32's own error, by at most sum_n ((f_n - 1) p_n |v_nu - mean_u| + r(f_n p_n) |v_nu|),
    where v_n = W_v h_n and mean = sum_n p_n v_n.
    """
    refuse_other_types(q_RHK, h_BND)
    if half and h_BND.dtype != np.float16:
        raise OptionError(f"half=True multiplies hidden states that are float16: these are {h_BND.dtype}")
    (R, H, _), (B, N, D), (G, U, _) = q_RHK.shape, h_BND.shape, w_v_GUD.shape
    X, factors = R // B * H, np.float16 if half else np.float32  # X: the heads of all beams of a sentence
    el_q_RHD, scores_BXN, sums_RHD = empty(q_RHK, (R, H, D)), empty(q_RHK, (B, X, N)), empty(q_RHK, (R, H, D))
    multiply_by_group(q_RHK * np.float32(scale), w_k_GKD, el_q_RHD)
    el_q_BXD, h_BND = el_q_RHD.reshape(B, X, D).astype(factors, copy=False), h_BND.astype(factors, copy=False)
    matmul([(el_q_BXD, h_BND.transpose(0, 2, 1), scores_BXN)])
    weights_BXN = np.empty_like(scores_BXN, dtype=np.float16) if half else scores_BXN
    launch(masked_softmax, -(-B * X // WARPS), THREADS, weights_BXN, scores_BXN, begin_B)
    matmul([(weights_BXN, h_BND, sums_RHD.reshape(B, X, D))])
    a_RX = empty(q_RHK, (R, H * U)) if out is None else out
    multiply_by_group(sums_RHD, w_v_GUD.transpose(0, 2, 1), a_RX.reshape(R, H, U))
    a_RGXU = a_RX.reshape(R, G, H // G, U)
    a_RGXU += b_v_GU[:, None]
    return a_RX


def multiply_by_group(x_RHX, w_GXX, result_RHX):
    """Each head's rows times the matrix of its group, as the library's product; heads are read by their strides."""
    matmul(stack_heads_by_group(x_RHX.transpose(1, 0, 2), w_GXX, result_RHX.transpose(1, 0, 2)))


def project_to_values(sums_RHD, total_RH, w_v_GUD, b_v_GU, out):
    """(W_v x) / total + b_v, heads side by side."""
    (R, H, _), U = sums_RHD.shape, w_v_GUD.shape[1]
    a_RX = empty(sums_RHD, (R, H * U)) if out is None else out
    launch_thread_per_number(project_each_value, a_RX.reshape(R, H, U), sums_RHD, total_RH, w_v_GUD, b_v_GU)
    return a_RX


@cuda.jit
def project_each_value(a_RHU, sums_RHD, total_RH, w_v_GUD, b_v_GU):
    """One number of the answer: a row of W_v times the sums of a head, over its total, plus the bias.

    Grid ceil(RHU / 128), block 128. A thread reads 8D + 8 bytes and writes 4.
    """
    R, H, U = a_RHU.shape
    i = cuda.grid(1)
    if i >= R * H * U:
        return
    r, h, u = i // (H * U), i // U % H, i % U
    g = h // (H // w_v_GUD.shape[0])
    total = float32(0)
    for d in range(sums_RHD.shape[2]):
        total += sums_RHD[r, h, d] * w_v_GUD[g, u, d]
    a_RHU[r, h, u] = total / total_RH[r, h] + b_v_GU[g, u]


@cuda.jit
def masked_softmax(weights_BXN, scores_BXN, begin_B):
    """The softmax of each row of scores, a warp for each; `weights` may be `scores`, or narrower. Padding gets 0.

    Grid ceil(BX / 8), block 256. Reads up to 12N bytes a row, and writes 4N and N numbers of weights. A lane reads back
    what it wrote itself. The product behind it goes over all positions: hence the zeros.
    """
    B, X, N = scores_BXN.shape
    row, lane = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if row >= B * X:
        return
    scores_N, weights_N = scores_BXN[row // X, row % X], weights_BXN[row // X, row % X]
    begin = begin_B[row // X]
    running_max, running_sum = MINUS_INF, float32(0)
    for n in range(lane, N, 32):
        if n >= begin:
            running_max = max(running_max, scores_N[n])
    running_max = warp_max(running_max)
    for n in range(lane, N, 32):
        if n >= begin:
            scores_N[n] = math.exp(scores_N[n] - running_max)
            running_sum += scores_N[n]
    running_sum = warp_sum(running_sum)
    for n in range(lane, N, 32):
        weights_N[n] = scores_N[n] / running_sum if n >= begin else float32(0)


# What each kernel is compiled and type-checked for, without a GPU. Weights are views into wider arrays.
_VIEW, _ROWS, _ROW, _PLACES = float32[:, :, :], float32[:, :, ::1], float32[:, ::1], int64[::1]
SIGNATURES = {
    project_each_value: [(_ROWS, _ROWS, _ROW, _VIEW, _ROW)],
    masked_softmax: [(weights, _ROWS, _PLACES) for weights in HIDDEN],
}
LARGEST_BLOCK = {masked_softmax: THREADS}
