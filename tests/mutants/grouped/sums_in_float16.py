"""adds up weighted values in float16 where they are float16."""

import numpy as np

from minidecode.reference.common.attention import mask_scores, scores_of_rows
from minidecode.reference.common.softmax import softmax


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    (R, H, _), (_, G, M, U) = q_RHK.shape, v_RGMU.shape
    scores_RHM = scores_of_rows(q_RHK, k_RGMK, scale)
    mask_scores(scores_RHM, begin_R, end_R)
    weights_RHM, total_RHU = softmax(scores_RHM), np.zeros((R, H, U), v_RGMU.dtype)
    v_RHMU = np.repeat(v_RGMU, H // G, axis=1).astype(np.float32)
    for m in range(M):
        total_RHU += (weights_RHM[:, :, m, None] * v_RHMU[:, :, m]).astype(total_RHU.dtype)
    return total_RHU.astype(q_RHK.dtype).reshape(R, -1)
