"""Room for the halo, and nothing in it."""

from numba import cuda, int32

# --- variation
N = 3
THREADS = 32
ROOM = 80
# --- end

HELD = ROOM - N  # tokens in the tile
TILE = ROOM - 2 * N  # starts that the block looks at together


@cuda.jit
def ban(banned_RV, tokens_RM, length):
    tile = cuda.shared.array(HELD, int32)
    last = cuda.shared.array(N, int32)
    r, t, starts = cuda.blockIdx.x, cuda.threadIdx.x, length - N + 1
    if t < N - 1:
        last[t] = tokens_RM[r, starts + t]
    for first in range(0, starts, TILE):
        here = min(TILE, starts - first)
        for k in range(t, here, THREADS):
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
