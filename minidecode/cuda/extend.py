"""A step's end in greedy search and sampling: each sequence gets its token, and the host reads one number.

1. One block, whose threads share the rows. Rows depend on no other row; the barriers at which the threads meet say
   whether all are done, and whether anything is wrong. A row is a dozen numbers, so that even for 1,024 of them it is
   the launch that takes the time.

Floor: a launch in a graph, 1.1 us. Predicted 2.3 us: two loads wait one for the other, and three barriers follow. Not
measured by itself.
"""

from __future__ import annotations

from numba import boolean, cuda, float32, float64, int32, int64

from ..device.launch import launch
from ..ops import ALL_DONE, FINE, NO_ROOM, NOT_A_NUMBER, SOME_DONE, TROUBLE
from ..reference import flag_array
from .common.tokens import is_among

THREADS = 128


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    """Gives each row its token, ends rows, and returns what the host must know as one number.

    Launches `extend_rows` as one block of 128. Reads 62 bytes a row and eos_X, and writes up to 25 a row and the flag's
    8.
    """
    flag = flag_array(trouble_R, out)
    noted, has_noted = (trouble_R, 0) if model_trouble_R is None else (model_trouble_R, 1)
    launch(
        extend_rows, 1, THREADS, tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R,
        prompt_R, limit_R, eos_X, noted, has_noted, flag,
    )  # fmt: skip
    return flag


@cuda.jit
def extend_rows(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R, has_noted, flag,
):  # fmt: skip
    """Appends tokens to the rows of each thread, r, r + 128 and so on, and votes on the flag.

    Grid 1, block 128. A row's thread reads 62 bytes and eos_X, and writes up to 25.
    """
    all_mine, some_mine, is_wrong = True, False, False
    for r in range(cuda.threadIdx.x, len(token_R), THREADS):
        trouble, token, length = trouble_R[r], token_R[r], length_R[r]
        if trouble == NOT_A_NUMBER or (trouble != FINE and not done_R[r]):
            is_wrong = True
        if has_noted and model_trouble_R[r] != FINE:
            is_wrong = True
        if not done_R[r] and trouble == FINE and length >= tokens_RM.shape[1]:
            trouble, trouble_R[r], is_wrong = NO_ROOM, NO_ROOM, True
        if not done_R[r] and trouble == FINE:
            tokens_RM[r, length], length_R[r] = token, length + 1
            if not certain_R[r]:
                total_R[r] += gained_R[r]
            done_R[r] = is_among(token, eos_X) or length + 1 - prompt_R[r] >= limit_R[r]
        if done_R[r]:
            some_mine = True
        else:
            all_mine = False
    all_done = cuda.syncthreads_and(int32(all_mine))
    some_done = cuda.syncthreads_or(int32(some_mine))
    any_wrong = cuda.syncthreads_or(int32(is_wrong))
    if cuda.threadIdx.x == 0:
        bits = (ALL_DONE if all_done else 0) + (SOME_DONE if some_done else 0)
        flag[0] = bits + TROUBLE if any_wrong else bits


# What each kernel is compiled and type-checked for, without a GPU.
_NUMBERS, _FLAGS = int64[::1], boolean[::1]
SIGNATURES = {
    extend_rows: [
        (int64[:, ::1], _NUMBERS, float32[::1], _FLAGS, _NUMBERS, float64[::1], _NUMBERS, _FLAGS, _NUMBERS, _NUMBERS,
         _NUMBERS, _NUMBERS, int64, _NUMBERS)
    ]
}  # fmt: skip
REGISTERS = {extend_rows: 80}  # one block, whose threads hold the addresses of 13 arrays
