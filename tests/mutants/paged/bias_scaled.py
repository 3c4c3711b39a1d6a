"""scales the position bias too, where scores get it after their scale."""

from dataclasses import replace

import numpy as np

from minidecode.reference import paged


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    wrong = bias and replace(bias, bias_XHP=np.float32(scale) * bias.bias_XHP)
    return paged.attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, wrong)
