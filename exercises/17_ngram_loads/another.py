"""A ring of tokens: each round adds THREADS tokens to it, and windows reach back; nothing is loaded twice."""

from numba import cuda, int32

# --- variation
N = 3
THREADS = 32
ROOM = 80
# --- end

RING = 2 * THREADS


@cuda.jit
def ban(banned_RV, tokens_RM, length):
    ring = cuda.shared.array(RING, int32)
    end = cuda.shared.array(N, int32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    if t < N - 1:
        end[t] = tokens_RM[r, length - (N - 1) + t]
    for first in range(0, length, THREADS):
        newest = first + t
        if newest < length:
            ring[newest % RING] = tokens_RM[r, newest]
        cuda.syncthreads()
        if N - 1 <= newest < length:
            k = 0
            while k < N - 1 and ring[(newest - N + 1 + k) % RING] == end[k]:
                k += 1
            if k == N - 1:
                banned_RV[r, ring[newest % RING]] = 1
        cuda.syncthreads()
