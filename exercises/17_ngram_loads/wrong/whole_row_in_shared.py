"""A row at once."""

from numba import cuda, int32

# --- variation
N = 3
THREADS = 32
ROOM = 80
# --- end

MOST = 4096


@cuda.jit
def ban(banned_RV, tokens_RM, length):
    tile = cuda.shared.array(MOST, int32)
    last = cuda.shared.array(N, int32)
    r, t, starts = cuda.blockIdx.x, cuda.threadIdx.x, length - N + 1
    if t < N - 1:
        last[t] = tokens_RM[r, starts + t]
    first, here = 0, starts
    if starts > 0:
        for k in range(t, here + N - 1, THREADS):
            tile[k] = tokens_RM[r, first + k]
        cuda.syncthreads()
        for start in range(t, here, THREADS):
            same = 0
            for k in range(N - 1):
                if tile[start + k] == last[k]:
                    same += 1
            if same == N - 1:
                banned_RV[r, tile[start + N - 1]] = 1
        cuda.syncthreads()
