"""A softmax for each part, each with its own maximum and sum, then put together by what they weigh."""

import numpy as np

# --- variation
W = 3
LAYOUT = "RTU"
PADDING = "right"
DTYPE = "float32"
# --- end


def part(score_X, v_XU):
    top = score_X.max()
    p_X = np.exp(score_X - top)
    return top, p_X.sum(), p_X @ v_XU / p_X.sum()


def attend(score_RN, score_RT, v_BNU, own_v, length_R):
    out_RU = np.empty((len(score_RN), v_BNU.shape[2]), DTYPE)
    for r, length in enumerate(length_R):
        own_v_TU = own_v[r] if LAYOUT == "RTU" else own_v[:, r]
        written = slice(length) if PADDING == "right" else slice(len(own_v_TU) - length, None)
        one, two = part(score_RN[r], v_BNU[r // W]), part(score_RT[r, written], own_v_TU[written])
        top = max(one[0], two[0])
        weights = [total * np.exp(largest - top) for largest, total, _ in (one, two)]
        out_RU[r] = (weights[0] * one[2] + weights[1] * two[2]) / sum(weights)
    return out_RU
