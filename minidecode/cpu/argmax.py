"""The likeliest token of each row, compiled for the CPU: its largest score is NumPy's, the exponentials are ours."""

from __future__ import annotations

import numpy as np

from ..reference.argmax import note_trouble, result_arrays
from .common.jit import njit
from .common.log_sum import largest_of, sum_of_exponentials


def argmax_tokens(scores_RV, logits_RV=None, out=None):
    """NumPy finds the largest on vectors; the sum of exponentials is HARS's, and writes nothing."""
    token_R, logprob_R, trouble_R = out = result_arrays(scores_RV, out)
    scores_RV.argmax(axis=1, out=token_R)
    best_R = np.take_along_axis(scores_RV, token_R[:, None], axis=1)[:, 0]
    if logits_RV is None:
        logprob_R[...] = best_R
    else:
        _log_probabilities(logits_RV, token_R, logprob_R)
    note_trouble(best_R, token_R, logprob_R, trouble_R)
    return out


@njit(cache=True)
def _log_probabilities(logits_RV, token_R, logprob_R):
    for r in range(len(logits_RV)):
        largest = largest_of(logits_RV[r])
        log_sum = np.log(sum_of_exponentials(logits_RV[r], largest))
        logprob_R[r] = logits_RV[r, token_R[r]] - largest - logits_RV.dtype.type(log_sum)
