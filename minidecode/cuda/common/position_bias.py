"""A position bias in kernels: a number by row, query head and bucket of the distance from query to key."""

from __future__ import annotations

from numba import cuda


def bias_arguments(bias, q_RHK, end_R):
    """(bias_XHP, bucket_L, zero) for a kernel. Without a bias it has no rows, and the next array is not read."""
    return (q_RHK[:0], end_R, 0) if bias is None else (bias.bias_XHP, bias.bucket_L, bias.zero)


@cuda.jit(device=True)
def bias_at(bias_XHP, bucket_L, r, h, place):
    """For entry `place` of the table, and beyond either end that of the end."""
    x = min(r, bias_XHP.shape[0] - 1)  # one for all rows, or one for each
    return bias_XHP[x, h, bucket_L[min(max(place, 0), bucket_L.size - 1)]]
