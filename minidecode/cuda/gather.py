"""Log-probabilities of sampled tokens, so that the host need not read rows of scores.

1. A thread per row: it picks two numbers.

Floor: a launch in a graph, 1.1 us. Predicted 2.1 us: a score waits for its token. Not measured.
"""

from __future__ import annotations

from numba import cuda, float32, int64

from ..device.launch import launch
from ..ops import FINE, NONE_LEFT, NOT_A_NUMBER
from ..reference.gather import result_arrays
from .common.rows import INFINITY


def gather_logprobs(token_R, scores_RV, logprobs_RV=None, out=None, *, threads=32):
    """The log-probability of each row's token, and whether its score could be drawn at all.

    Launches `pick_logprob_of_token` in ceil(R / threads) blocks. Reads 16 bytes a row and writes 12.
    """
    out = result_arrays(token_R, scores_RV, out)
    logprobs = scores_RV if logprobs_RV is None else logprobs_RV
    launch(pick_logprob_of_token, -(-len(token_R) // threads), threads, token_R, scores_RV, logprobs, *out)
    return out


@cuda.jit
def pick_logprob_of_token(token_R, scores_RV, logprobs_RV, logprob_R, trouble_R):
    """Picks score and log-probability of one row's token.

    Any grid of R threads. A thread reads 16 bytes and writes 12.
    """
    r = cuda.grid(1)
    if r < len(token_R):
        score, logprob = scores_RV[r, token_R[r]], logprobs_RV[r, token_R[r]]
        logprob_R[r], trouble_R[r] = logprob, FINE
        if score == -INFINITY:
            trouble_R[r] = NONE_LEFT
        if score != score or logprob != logprob:
            trouble_R[r] = NOT_A_NUMBER


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {pick_logprob_of_token: [(int64[::1], float32[:, ::1], float32[:, ::1], float32[::1], int64[::1])]}
