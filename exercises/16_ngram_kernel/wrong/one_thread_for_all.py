"""A block of one thread for each row, which goes through all starts."""

from numba import cuda

# --- variation
N = 3
THREADS = 64
# --- end


@cuda.jit
def ban(banned_RV, tokens, stride, length_R):
    r = cuda.blockIdx.x
    context = r * stride + length_R[r] - N + 1
    for start in range(length_R[r] - N + 1):
        same = 0
        for k in range(N - 1):
            if tokens[r * stride + start + k] == tokens[context + k]:
                same += 1
        if same == N - 1:
            banned_RV[r, tokens[r * stride + start + N - 1]] = 1


def launch_shape(rows, longest):
    return rows, 1
