"""takes the position bias off the scores: the wrong sign."""

from dataclasses import replace

from minidecode.reference import paged


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    wrong = bias and replace(bias, bias_XHP=-bias.bias_XHP)
    return paged.attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, wrong)
