"""gives the farthest keys the last bucket but one: its table ends one bucket early."""

from dataclasses import replace

from minidecode.reference import paged


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    wrong = bias and replace(bias, bucket_L=bias.bucket_L[bias.bucket_L < bias.bucket_L[-1]])
    return paged.attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, wrong)
