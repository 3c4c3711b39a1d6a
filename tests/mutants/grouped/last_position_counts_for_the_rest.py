"""reads four positions at a time, in place of those behind the last that one again, and gives it its weight again."""

import numpy as np

from minidecode.reference import grouped


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    seen_R = -(-(end_R - begin_R) // 4) * 4
    places_RM = np.minimum(begin_R[:, None] + np.arange(seen_R.max()), end_R[:, None] - 1)
    cache = (np.stack([a_GMX[:, m] for a_GMX, m in zip(a, places_RM, strict=True)]) for a in (k_RGMK, v_RGMU))
    return grouped.attend(q_RHK, *cache, np.zeros_like(begin_R), seen_R, scale)
