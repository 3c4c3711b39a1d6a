"""begins a page one position too late: slot 0 of a page is read as the last of the one before."""

import numpy as np

from minidecode.reference import paged


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    M = k_XGMK.shape[2]
    k_RXGK, v_RXGU = ([] for _ in range(2))
    longest = int(end_R.max())
    place_X = [(max(m - 1, 0) // M, m % M) for m in range(longest)]
    for found, pages_XGMX in ((k_RXGK, k_XGMK), (v_RXGU, v_XGMU)):
        found += [pages_XGMX[table_RX[:, nth], :, slot] for nth, slot in place_X]
    k_RGMK, v_RGMU = (np.ascontiguousarray(np.stack(found, axis=2)) for found in (k_RXGK, v_RXGU))
    rows_RX = np.arange(len(table_RX))[:, None]
    return paged.attend_paged(q_RHK, k_RGMK, v_RGMU, rows_RX, begin_R, end_R, scale, bias)
