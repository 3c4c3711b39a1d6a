"""A grid of two dimensions: as many blocks to a row as its starts need, one start for each thread."""

from numba import cuda

# --- variation
N = 3
THREADS = 64
# --- end


@cuda.jit(device=True)
def repeats(tokens, one, two):
    for k in range(N - 1):
        if tokens[one + k] != tokens[two + k]:
            return False
    return True


@cuda.jit
def ban(banned_RV, tokens, stride, length_R):
    start, r = cuda.grid(2)
    first, length = r * stride, length_R[r]
    if start > length - N:
        return
    if repeats(tokens, first + start, first + length - N + 1):
        banned_RV[r, tokens[first + start + N - 1]] = 1


def launch_shape(rows, longest):
    return ((longest + THREADS - 1) // THREADS, rows), THREADS
