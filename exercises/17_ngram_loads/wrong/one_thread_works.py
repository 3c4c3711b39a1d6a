"""Each token is loaded once, by one thread, which keeps the last N of them."""

from numba import cuda, int32

# --- variation
N = 3
THREADS = 32
ROOM = 80
# --- end


@cuda.jit
def ban(banned_RV, tokens_RM, length):
    r = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        newest, window = cuda.local.array(N, int32), cuda.local.array(N, int32)
        for k in range(N - 1):
            newest[k] = tokens_RM[r, length - N + 1 + k]
            window[k + 1] = tokens_RM[r, k]
        for end in range(N - 1, length):
            same = 0
            for k in range(N - 1):
                window[k] = window[k + 1]
                if window[k] == newest[k]:
                    same += 1
            window[N - 1] = tokens_RM[r, end]
            if same == N - 1:
                banned_RV[r, window[N - 1]] = 1
