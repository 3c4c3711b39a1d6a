"""A block for each row; a thread goes on to the start blockDim.x further."""

from numba import cuda

# --- variation
N = 3
THREADS = 64
# --- end


@cuda.jit
def ban(banned_RV, tokens, stride, length_R):
    # --- your turn: a thread for each start of a window
    r = cuda.blockIdx.x
    context = r * stride + length_R[r] - N + 1
    for start in range(cuda.threadIdx.x, length_R[r] - N + 1, cuda.blockDim.x):
        same = 0
        for k in range(N - 1):
            if tokens[r * stride + start + k] == tokens[context + k]:
                same += 1
        if same == N - 1:
            banned_RV[r, tokens[r * stride + start + N - 1]] = 1
    # --- end


def launch_shape(rows, longest):
    """(blocks, threads) for so many rows, the longest of so many tokens."""
    # --- your turn: how many blocks, of how many threads
    return rows, THREADS
    # --- end
