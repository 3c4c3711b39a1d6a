"""A tile of tokens with the N - 1 after it: what a window needs lies in shared memory."""

from numba import cuda, int32

# --- variation
N = 3
THREADS = 32
ROOM = 80
# --- end

# --- was
HELD = ROOM - N  # tokens in the tile
TILE = ROOM - 2 * N  # starts that the block looks at together
# --- end


@cuda.jit
def ban(banned_RV, tokens_RM, length):
    # --- your turn: right, but each token is loaded again and again
    #| r = cuda.blockIdx.x
    #| context = length - N + 1
    #| for start in range(cuda.threadIdx.x, length - N + 1, THREADS):
    #|     same = 0
    #|     for k in range(N - 1):
    #|         if tokens_RM[r, start + k] == tokens_RM[r, context + k]:
    #|             same += 1
    #|     if same == N - 1:
    #|         banned_RV[r, tokens_RM[r, start + N - 1]] = 1
    tile = cuda.shared.array(HELD, int32)
    last = cuda.shared.array(N, int32)
    r, t, starts = cuda.blockIdx.x, cuda.threadIdx.x, length - N + 1
    if t < N - 1:
        last[t] = tokens_RM[r, starts + t]
    for first in range(0, starts, TILE):
        here = min(TILE, starts - first)
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
    # --- end
