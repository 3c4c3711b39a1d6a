"""finds the keys by the table and the values in the pages in order."""

import numpy as np

from minidecode.reference import paged


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, *rest):
    R, pages = table_RX.shape
    in_order_XGMU = v_XGMU[np.arange(R * pages) % len(v_XGMU)]
    k_XGMK = k_XGMK[table_RX.ravel()]
    return paged.attend_paged(q_RHK, k_XGMK, in_order_XGMU, np.arange(R * pages).reshape(R, pages), *rest)
