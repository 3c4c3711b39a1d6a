"""Row by row; a correction for each piece, so that no sum ever holds the offset of another."""

import numpy as np

# --- variation
DEPTH = 64
LARGEST = 127
OFFSET = 128
# --- end


def rounded(x_D):
    """(unsigned integers, the step between two of them)."""
    largest = np.abs(x_D).max()
    if largest == 0:
        return np.full(x_D.shape, OFFSET, np.uint8), largest
    return (np.rint(x_D * (LARGEST / largest)).astype(np.int16) + OFFSET).astype(np.uint8), largest / LARGEST


def product(x_RD, w_FD, scale_F, dot):
    D = w_FD.shape[1]
    pieces = [w_FD[:, a : min(a + DEPTH, D)] for a in range(0, D, DEPTH)]
    columns = [OFFSET * piece.astype(np.int32).sum(axis=1) for piece in pieces]
    rows = []
    for x_D in x_RD:
        u_D, step = rounded(x_D)
        total, begin = 0, 0
        for piece, column_F in zip(pieces, columns, strict=True):
            end = begin + piece.shape[1]
            total, begin = total + dot(u_D[None, begin:end], piece)[0] - column_F, end
        rows.append(step * (total * scale_F))
    return np.stack(rows).astype(np.float32)
