"""sees all positions of a row, also those in front of its window."""

from minidecode.reference import paged


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    return paged.attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, 0 * begin_R, end_R, scale, bias)
