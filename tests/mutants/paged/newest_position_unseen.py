"""does not see the newest position where it begins a page: the pages are counted from the length before it."""

import numpy as np

from minidecode.reference import paged


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    begins_page_R = (end_R - 1) % k_XGMK.shape[2] == 0
    end_R = np.where(begins_page_R & (end_R - begin_R > 1), end_R - 1, end_R)
    return paged.attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias)
