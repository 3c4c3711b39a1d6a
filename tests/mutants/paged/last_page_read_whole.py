"""reads the last page of a row to its end, also what is not written yet."""

from minidecode.reference import paged


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    M = k_XGMK.shape[2]
    end_R = -(-end_R // M) * M
    bias = None
    return paged.attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias)
