"""What the host must know of a step of beam search, as one number: the only one that it reads back.

1. One thread looks at everything, one after the other.
2. One block: each thread looks at its share, and the barriers at which they meet say what all or any have seen. A step
   of 32 sentences of 4 beams has some 300 numbers, so a second block would have nothing to do.

Floor: a launch in a graph, 1.1 us. Predicted 1.8 us: one load waits, and four barriers follow. Not measured by itself.
"""

from __future__ import annotations

from numba import boolean, cuda, int32, int64

from ..device.launch import launch
from ..ops import ALL_DONE, FINE, MOVED, SOME_DONE, TROUBLE
from ..reference import flag_array

THREADS = 128


def step_flags_v1(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    """What the host must know of a step, as one number, by one thread.

    Launches `write_flag_by_thread` as one block of 1. Reads 9 bytes a sentence, 8 a row of the model's troubles and 8 a
    beam; writes 8.
    """
    return launch_one_block(write_flag_by_thread, 1, done_X, trouble_X, parent_BW, model_trouble_R, out)


def launch_one_block(kernel, threads, done_X, trouble_X, parent_BW, model_trouble_R, out):
    """Launches `kernel` for the flag. Without notes on the model's scores, it gets those on sentences twice."""
    flag = flag_array(trouble_X, out)
    noted = trouble_X if model_trouble_R is None else model_trouble_R
    launch(kernel, 1, threads, done_X, trouble_X, parent_BW, noted, flag)
    return flag


@cuda.jit
def write_flag_by_thread(done_X, trouble_X, parent_BW, model_trouble_R, flag):
    """Looks at everything, one after the other, and writes the flag.

    Grid 1, block 1. Reads 9 bytes a sentence, 8 a row of the model's troubles and 8 a beam, and writes 8.
    """
    seen = flags_of_share(0, 1, done_X, trouble_X, parent_BW, model_trouble_R)
    flag[0] = encode_flag(seen[0], seen[1], seen[2], seen[3])


@cuda.jit(device=True)
def flags_of_share(t, threads, done_X, trouble_X, parent_BW, model_trouble_R):
    """(all done, some done, anything wrong, any beam moved) of the share of thread t."""
    all_done, some_done, is_wrong, moved, W = True, False, False, False, parent_BW.shape[1]
    for x in range(t, len(done_X), threads):
        if done_X[x]:
            some_done = True
        else:
            all_done = False
        if trouble_X[x] != FINE:
            is_wrong = True
    for r in range(t, len(model_trouble_R), threads):
        if model_trouble_R[r] != FINE:
            is_wrong = True
    for r in range(t, parent_BW.size, threads):
        if parent_BW[r // W, r % W] != r % W:
            moved = True
    return all_done, some_done, is_wrong, moved


@cuda.jit(device=True)
def encode_flag(all_done, some_done, is_wrong, moved):
    """The flag of what has been seen: a sum of powers of two."""
    bits = ALL_DONE if all_done else 0
    if some_done:
        bits += SOME_DONE
    if is_wrong:
        bits += TROUBLE
    if moved:
        bits += MOVED
    return bits


def step_flags(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    """What the host must know of a step, as one number, by one block.

    Version 2: `write_flag_by_block` as one block of 128. Reads 9 bytes a sentence, 8 a row of the model's troubles and
    8 a beam; writes 8.
    """
    return launch_one_block(write_flag_by_block, THREADS, done_X, trouble_X, parent_BW, model_trouble_R, out)


@cuda.jit
def write_flag_by_block(done_X, trouble_X, parent_BW, model_trouble_R, flag):
    """Looks at the thread's share; the barriers say what all or any of the block have seen.

    Grid 1, block 128. Reads 9 bytes a sentence, 8 a row of the model's troubles and 8 a beam, and writes 8.
    """
    t = cuda.threadIdx.x
    all_mine, some_mine, is_wrong, moved = flags_of_share(t, THREADS, done_X, trouble_X, parent_BW, model_trouble_R)
    all_done = cuda.syncthreads_and(int32(all_mine))
    some_done = cuda.syncthreads_or(int32(some_mine))
    any_wrong = cuda.syncthreads_or(int32(is_wrong))
    any_moved = cuda.syncthreads_or(int32(moved))
    if t == 0:
        flag[0] = encode_flag(all_done, some_done, any_wrong, any_moved)


# What each kernel is compiled and type-checked for, without a GPU.
_ARGUMENTS = (boolean[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])
SIGNATURES = {write_flag_by_thread: [_ARGUMENTS], write_flag_by_block: [_ARGUMENTS]}
