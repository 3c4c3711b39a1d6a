"""As it was."""

from numba import cuda

# --- variation
N = 3
THREADS = 32
ROOM = 80
# --- end


@cuda.jit
def ban(banned_RV, tokens_RM, length):
    r = cuda.blockIdx.x
    context = length - N + 1
    for start in range(cuda.threadIdx.x, length - N + 1, THREADS):
        same = 0
        for k in range(N - 1):
            if tokens_RM[r, start + k] == tokens_RM[r, context + k]:
                same += 1
        if same == N - 1:
            banned_RV[r, tokens_RM[r, start + N - 1]] = 1
