"""begins a window at the edge of its first page."""

from minidecode.reference import paged


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    begin_R = begin_R // k_XGMK.shape[2] * k_XGMK.shape[2]
    return paged.attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias)
