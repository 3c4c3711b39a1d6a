"""Attention on the hidden states of a prompt and on the keys and values of what each beam has generated (EL, 3.2).

1. The prompt's part by a kernel for each product and one for the exponentials (cuda/el.py, version 1), the generated
   part's scores by one more; the last kernel joins the two.
2. The prompt's part by the one kernel of cuda/el.py's version 2. The generated part is short beside the prompt, and
   stays as it is.

Floor: the hidden states of the prompt and the keys and values of what was generated, each read once, at 2.4 TB/s, and
five launches. Predicted: the time of el.py's version 2, and 10 us for 4 sentences of 4 beams with 32 generated
positions. Not measured.

Each part comes with its own largest score and the sum of its own exponentials; to join two softmaxes, both parts are
scaled to the larger of the two scores. That is also where the key bias comes in: q . b_k is the same at all positions
of the prompt, so it moves the largest score of that part and nothing else in it.

Hidden states, keys and values may be float16: they are cast where they are read, and everything is computed in
float32.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64

from ..reference import scratch
from .common.attention import CACHES, make_result_array
from .common.grids import launch_thread_per_number
from .common.hidden_sums import sum_hidden_states, sum_hidden_states_v1


def attend_el_split_v1(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None,
):  # fmt: skip
    """Attention on a prompt's hidden states and a row's own keys and values, the prompt kernel by kernel.

    Launches what `sum_hidden_states_v1` does, then `score_own_positions` and `join_prompt_and_own`. Reads (4 + s)RHTK
    bytes for own scores, and RHU times (8 + s)T + 8D + 8K to join; s: bytes of a number of the cache.
    """
    prompt = sum_hidden_states_v1(q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, scale)
    return _launch_join(prompt, q_RHK, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale, out)


def attend_el_split(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None, *, workspace=None,
):  # fmt: skip
    """Attention on a prompt's hidden states and a row's own keys and values, the prompt by one kernel.

    Version 2: `sum_hidden_states`, then `score_own_positions` and `join_prompt_and_own`, a thread for each number.
    Hidden states that do not fit take version 1.
    """
    prompt = sum_hidden_states(q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, scale, workspace)
    return _launch_join(prompt, q_RHK, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale, out, workspace)


def _launch_join(prompt, q_RHK, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale, out, workspace=None):
    (R, H, _), T, U = q_RHK.shape, k_RGTK.shape[2], v_RGTU.shape[3]
    scores_RHT = scratch(workspace, (R, H, T), q_RHK)
    a_RX = make_result_array(q_RHK, (k_RGTK, v_RGTU), out)
    launch_thread_per_number(score_own_positions, scores_RHT, q_RHK, k_RGTK, begin_R, end_R, np.float32(scale))
    rest = q_RHK, b_k_GK, w_v_GUD, b_v_GU, scores_RHT, v_RGTU, begin_R, end_R, np.float32(scale)
    launch_thread_per_number(join_prompt_and_own, a_RX.reshape(R, H, U), *prompt, *rest)
    return a_RX


@cuda.jit
def score_own_positions(scores_RHT, q_RHK, k_RGTK, begin_R, end_R, scale):
    """The score of one position that a row has generated itself and sees.

    Grid ceil(RHT / 128), block 128. A thread reads (4 + s)K bytes and writes 4; s: bytes of a number of the cache.
    """
    R, H, T = scores_RHT.shape
    i = cuda.grid(1)
    if i >= R * H * T:
        return
    r, h, t = i // (H * T), i // T % H, i % T
    if t < begin_R[r] or t >= end_R[r]:
        return
    g = h // (H // k_RGTK.shape[1])
    total = float32(0)
    for k in range(q_RHK.shape[2]):
        total += q_RHK[r, h, k] * float32(k_RGTK[r, g, t, k])
    scores_RHT[r, h, t] = scale * total


@cuda.jit
def join_prompt_and_own(
    a_RHU, sums_RHD, top_RH, total_RH, q_RHK, b_k_GK, w_v_GUD, b_v_GU, scores_RHT, v_RGTU, begin_R, end_R, scale
):
    """One number of the answer, from the sums of the prompt and the row's own scores and values.

    Grid ceil(RHU / 128), block 128. A thread reads 8D bytes for the prompt, 8K for the key bias and (8 + s)T for its
    own part, and writes 4. It takes the few exponentials itself: to share them it would have to wait.
    """
    R, H, U = a_RHU.shape
    i = cuda.grid(1)
    if i >= R * H * U:
        return
    r, h, u = i // (H * U), i // U % H, i % U
    g = h // (H // v_RGTU.shape[1])
    shift = float32(0)
    for k in range(q_RHK.shape[2]):
        shift += q_RHK[r, h, k] * b_k_GK[g, k]
    prompt_top = top_RH[r, h] + scale * shift
    running_max, end = prompt_top, min(end_R[r], v_RGTU.shape[2])
    for t in range(begin_R[r], end):
        running_max = max(running_max, scores_RHT[r, h, t])

    value = float32(0)
    for d in range(sums_RHD.shape[2]):
        value += sums_RHD[r, h, d] * w_v_GUD[g, u, d]
    prompt_weight = math.exp(prompt_top - running_max)
    value = prompt_weight * (value + total_RH[r, h] * b_v_GU[g, u])
    running_sum = prompt_weight * total_RH[r, h]
    for t in range(begin_R[r], end):
        weight = math.exp(scores_RHT[r, h, t] - running_max)
        value += weight * float32(v_RGTU[r, g, t, u])
        running_sum += weight
    a_RHU[r, h, u] = value / running_sum


# What each kernel is compiled and type-checked for, without a GPU. Queries and weights are views into wider arrays.
_VIEW, _ROWS, _ROW = float32[:, :, :], float32[:, :, ::1], float32[:, ::1]
_PLACES = int64[::1]
SIGNATURES = {
    score_own_positions: [(_ROWS, _VIEW, m, _PLACES, _PLACES, float32) for m in CACHES],
    join_prompt_and_own: [
        (_ROWS, _ROWS, _ROW, _ROW, _VIEW, _ROW, _VIEW, _ROW, _ROWS, m, _PLACES, _PLACES, float32) for m in CACHES
    ],
}
REGISTERS = {join_prompt_and_own: 56}
