"""The last start is left out."""

from numba import cuda

# --- variation
N = 3
THREADS = 64
# --- end


@cuda.jit
def ban(banned_RV, tokens, stride, length_R):
    r = cuda.blockIdx.x
    context = r * stride + length_R[r] - N + 1
    for start in range(cuda.threadIdx.x, length_R[r] - N, cuda.blockDim.x):
        same = 0
        for k in range(N - 1):
            if tokens[r * stride + start + k] == tokens[context + k]:
                same += 1
        if same == N - 1:
            banned_RV[r, tokens[r * stride + start + N - 1]] = 1


def launch_shape(rows, longest):
    """(blocks, threads) for so many rows, the longest of so many tokens."""
    return rows, THREADS
