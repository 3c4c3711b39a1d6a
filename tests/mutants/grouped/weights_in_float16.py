"""rounds the softmax to float16 where the cache is float16, as a product of two such arrays would have it."""

from minidecode.reference.common.attention import mask_scores, scores_of_rows, sums_of_rows
from minidecode.reference.common.softmax import softmax


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    scores_RHM = scores_of_rows(q_RHK, k_RGMK, scale)
    mask_scores(scores_RHM, begin_R, end_R)
    weights_RHM = softmax(scores_RHM).astype(k_RGMK.dtype).astype(q_RHK.dtype)
    return sums_of_rows(weights_RHM, v_RGMU).reshape(len(q_RHK), -1)
