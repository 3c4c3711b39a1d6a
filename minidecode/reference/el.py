"""Attention straight on hidden states (EL): a layer's key and value weights go to its queries and to its results.

These are array operations that CuPy has too (begin_B stays on the host): on a GPU's arrays the two products for all
heads and beams of a sentence are strided-batched matrix products, with a masked softmax between them. cuda/el.py shows
what lies inside.
"""

from __future__ import annotations

from .common.attention import join_heads
from .common.hidden_states import (
    key_bias_scores,
    keys_and_values,
    repeat_for_query_heads,
    scores_of_hidden,
    values_of_hidden,
)
from .common.softmax import softmax
from .shared import attend_shared


def attend_el_naive(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None):
    """Multi-head attention without a cache: keys and values of all positions are built again, then looked at."""
    k_BGNK, v_BGNU = keys_and_values(h_BND, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU)
    return attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out)


def attend_el_all_biases(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None):
    """Equation 9 to the letter: q . b_k is added to all scores of a row and head."""
    H = q_RHK.shape[1]
    scores_RHN = scores_of_hidden(q_RHK, h_BND, begin_B, w_k_GKD, scale)
    scores_RHN += key_bias_scores(q_RHK, b_k_GK, scale)[:, :, None]
    a_RHU = values_of_hidden(softmax(scores_RHN), h_BND, w_v_GUD)
    return join_heads(a_RHU + repeat_for_query_heads(b_v_GU, H), out)


def attend_el(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None, *, workspace=None):
    """Without q . b_k (the end of Appendix B), which changes no weight.

    It is one number c for all positions n of a row and head, and exp(s_n + c) / sum_m exp(s_m + c) is
    exp(c) exp(s_n) / (exp(c) sum_m exp(s_m)): the factor goes out. The weights add up to 1, so b_v stays whole.
    """
    weights_RHN = softmax(scores_of_hidden(q_RHK, h_BND, begin_B, w_k_GKD, scale, workspace), workspace)
    a_RHU = values_of_hidden(weights_RHN, h_BND, w_v_GUD, workspace)
    a_RHU += repeat_for_query_heads(b_v_GU, q_RHK.shape[1])
    return join_heads(a_RHU, out)
