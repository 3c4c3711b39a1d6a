"""The bookkeeping of a beam search's step, so that candidates need not come back to the host.

LightSeq decides as much in `ker_refresh_result`, with other rules.

1. A thread per sentence, which goes through the rules as the naive version does. It keeps no array of its own: a text
   that finishes moves the others down in the table itself, and a candidate finds its place among those that run on by
   counting who goes before it. All that a step of 32 sentences of 4 beams has is some 2,000 comparisons.
2. A warp per sentence, a lane per candidate: loads and comparisons run side by side, where one thread waited for each
   load of the last one's result. Only what depends on the order, who enters among the finished, is left to one lane.
   Candidates' scores lie in shared memory, and are compared without branches. Floor: a kernel in a graph, 1.6 us.
   Measured (H100, 2026-11-26): 15.4 to 16.9 us for version 1 and 1 to 128 rows; 5.0 to 5.5 us for version 2 while it
   compared in global memory. Predicted for shared memory: 3 us. Measured (H100, 2026-11-26): 3.7, 3.7, 3.7 and 3.9 us
   for 1, 4, 32 and 128 rows.
"""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
from numba import boolean, cuda, float32, int32, int64

from ..device.launch import launch
from ..ops import BEST_CANDIDATE, FINE, NO_ROOM, NOBODY, NONE_LEFT, NOT_A_NUMBER, PENALTY_TOO_STRONG
from ..reference.beam_update import result_arrays
from .common.reduction import LANES, WARP
from .common.tokens import is_among

INFINITY = float32(np.inf)
MOST = 128  # candidates of a sentence that version 2 has room for


def update_beams_v1(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None, *, threads=32,
):  # fmt: skip
    """Chooses which beams go on and which texts finish, a thread per sentence.

    Launches `advance_sentence` in ceil(B / threads) blocks. A thread reads 12C^2 bytes to order its candidates and 16W
    of tables; it writes C + 36W + 25, and 20 for each place of the finished table that changes.
    """
    out = result_arrays(score_BC, running_score_BW, out)
    launch(
        advance_sentence, -(-len(score_BC) // threads), threads, score_BC, parent_BC, token_BC, running_score_BW,
        finished_score_BW, finished_length_BW, done_B, length_B, prompt_B, limit_B, norm_X, eos_X,
        *rule_scalars(rules, score_BC), *out,
    )  # fmt: skip
    return out


def rule_scalars(rules, score_BC):
    """The rules as a kernel takes them."""
    mark, *flags = astuple(rules)
    return score_BC.dtype.type(mark), *map(int, flags)


@cuda.jit
def advance_sentence(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, mark, first_stay, full_is_done, hope, hope_at_limit, candidates_at_limit, beams_at_limit,
    in_order, kept_BW, parent_BW, token_BW, finishes_BC, slot_BW, at_B, trouble_B,
):  # fmt: skip
    """Goes through the rules of one sentence in order: trouble, candidates, whether it is done, the limit.

    Any grid of B threads. A thread reads 12C^2 + 16W bytes and writes C + 36W + 25: all state lies in the tables.
    """
    b = cuda.grid(1)
    if b >= len(score_BC):
        return
    C, W, best = score_BC.shape[1], running_score_BW.shape[1], score_BC[b, 0]
    new = length_B[b] + 1 - prompt_B[b]
    has_room = new < len(norm_X)
    at_limit, norm = new >= limit_B[b], norm_X[new if has_room else 0]
    free = 0
    for w in range(W):
        slot_BW[b, w] = w
        if finished_length_BW[b, w] == 0:
            free += 1

    # 0. Trouble, of sentences that go on.
    was_done, trouble_B[b] = done_B[b], FINE
    if not was_done and not has_room:
        was_done, trouble_B[b] = True, NO_ROOM
    elif not was_done and not best > -INFINITY:
        was_done = True
        if best != best:
            trouble_B[b] = NOT_A_NUMBER
        elif free == W:
            trouble_B[b] = NONE_LEFT

    # 1. and 2. Each candidate finishes or not, and finds its place among those that run on.
    for c in range(C):
        ends, score = is_among(token_BC[b, c], eos_X), score_BC[b, c]
        finishes = (ends or (at_limit and candidates_at_limit)) and c < W and not was_done
        if first_stay and finishes:
            finishes = score > -INFINITY and free > 0
            if finishes:
                free -= 1
        finishes_BC[b, c] = finishes
        if finishes:
            enter_finished_text(b, finished_score_BW, finished_length_BW, slot_BW, score / norm, new, W + c)
        w = rank_among_going(b, c, score_BC, token_BC, eos_X, mark, in_order)
        if w < W:
            kept_BW[b, w], parent_BW[b, w], token_BW[b, w] = c, parent_BC[b, c], token_BC[b, c]
            running_score_BW[b, w] = score + mark if ends else score

    # 3. Is the sentence done?
    is_full = True
    for w in range(W):
        if finished_length_BW[b, w] == 0:
            is_full = False
    is_done = was_done or (is_full and full_is_done)
    if hope != NOBODY:
        hoping = best if hope == BEST_CANDIDATE else running_score_BW[b, 0]
        hoped = hoping / norm_X[min(limit_B[b] if hope_at_limit else new, len(norm_X) - 1)]
        if hoping + hoping > mark and hoped <= mark and not was_done:
            trouble_B[b] = PENALTY_TOO_STRONG
        is_beaten = hoped <= (finished_score_BW[b, W - 1] if is_full else mark)
        if is_beaten and (is_full or hope != BEST_CANDIDATE):
            is_done = True

    # 4. At the limit nothing runs on.
    if beams_at_limit and at_limit and not is_done:
        for w in range(W):
            score, slot = running_score_BW[b, w] / norm, W + kept_BW[b, w]
            enter_finished_text(b, finished_score_BW, finished_length_BW, slot_BW, score, new, slot)
    at_B[b] = length_B[b]
    done_B[b] = is_done or at_limit
    if not done_B[b]:
        length_B[b] += 1


def update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    """Chooses which beams go on and which texts finish, a warp per sentence and a lane per candidate.

    Version 2: `advance_by_warp` in B blocks of 32. Reads 12C + 16W bytes a sentence and orders the candidates in shared
    memory; writes C + 36W + 25, and 20 for each place of the finished table that changes. More than 128 candidates, and
    scores that are no float32, take version 1.
    """
    if score_BC.shape[1] > MOST or score_BC.dtype != np.float32:
        return update_beams_v1(
            score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B,
            prompt_B, limit_B, norm_X, eos_X, rules, out,
        )  # fmt: skip
    out = result_arrays(score_BC, running_score_BW, out)
    launch(
        advance_by_warp, len(score_BC), WARP, score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW,
        finished_length_BW, done_B, length_B, prompt_B, limit_B, norm_X, eos_X, *rule_scalars(rules, score_BC), *out,
    )  # fmt: skip
    return out


@cuda.jit
def advance_by_warp(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, mark, first_stay, full_is_done, hope, hope_at_limit, candidates_at_limit, beams_at_limit,
    in_order, kept_BW, parent_BW, token_BW, finishes_BC, slot_BW, at_B, trouble_B,
):  # fmt: skip
    """Orders the candidates of one sentence side by side; lane 0 alone enters texts among the finished ones.

    Grid B, block 32; 1 KiB of shared memory. Reads 12C + 16W bytes a sentence and writes C + 36W + 25.
    """
    going = cuda.shared.array(MOST, float32)  # candidates' scores, those that end out of play
    ending = cuda.shared.array(MOST, int32)
    b, lane = cuda.blockIdx.x, cuda.threadIdx.x
    C, W, best, was_done = score_BC.shape[1], running_score_BW.shape[1], score_BC[b, 0], done_B[b]
    length, limit = length_B[b], limit_B[b]
    new = length + 1 - prompt_B[b]
    has_room, last = new < len(norm_X), len(norm_X) - 1
    at_limit, norm = new >= limit, norm_X[min(new, last)]
    hoped_norm = norm_X[min(limit if hope_at_limit else new, last)]
    for c in range(lane, C, WARP):
        ends = is_among(token_BC[b, c], eos_X)
        ending[c], going[c] = int32(ends), score_BC[b, c] + mark if ends else score_BC[b, c]
    has_text, has_free = False, False
    for w in range(lane, W, WARP):
        slot_BW[b, w] = w
        has_text |= finished_length_BW[b, w] > 0
        has_free |= finished_length_BW[b, w] == 0
    is_empty, is_full = not cuda.any_sync(LANES, has_text), not cuda.any_sync(LANES, has_free)

    # 0. Trouble, of sentences that go on.
    trouble = FINE
    if not was_done and not has_room:
        was_done, trouble = True, NO_ROOM
    elif not was_done and not best > -INFINITY:
        was_done = True
        if best != best:
            trouble = NOT_A_NUMBER
        elif is_empty:
            trouble = NONE_LEFT

    # 1. and 2. Each candidate finds its place among those that run on, and may finish, whatever others do.
    cuda.syncwarp()  # `going` and `ending` are complete
    some_finish = False
    for c in range(lane, C, WARP):
        finishes = (ending[c] != 0 or (at_limit and candidates_at_limit)) and c < W and not was_done
        finishes_BC[b, c], some_finish = finishes, some_finish | finishes
        w = rank_in_warp(c, C, going, ending, in_order)
        if w < W:
            kept_BW[b, w], parent_BW[b, w], token_BW[b, w] = c, parent_BC[b, c], token_BC[b, c]
            running_score_BW[b, w] = going[c]
    some_finish = cuda.any_sync(LANES, some_finish)
    cuda.syncwarp()  # and what all lanes have written is seen by the first
    if lane > 0:
        return
    if some_finish:
        free = 0
        for w in range(W):
            if finished_length_BW[b, w] == 0:
                free += 1
        for c in range(min(C, W)):
            if finishes_BC[b, c]:
                if first_stay and not (score_BC[b, c] > -INFINITY and free > 0):
                    finishes_BC[b, c] = False
                else:
                    free -= 1
                    enter_finished_text(
                        b, finished_score_BW, finished_length_BW, slot_BW, score_BC[b, c] / norm, new, W + c
                    )
        is_full = True
        for w in range(W):
            if finished_length_BW[b, w] == 0:
                is_full = False

    # 3. Is the sentence done?
    is_done = was_done or (is_full and full_is_done)
    if hope != NOBODY:
        hoping = best if hope == BEST_CANDIDATE else running_score_BW[b, 0]
        hoped = hoping / hoped_norm
        if hoping + hoping > mark and hoped <= mark and not was_done:
            trouble = PENALTY_TOO_STRONG
        is_beaten = hoped <= (finished_score_BW[b, W - 1] if is_full else mark)
        if is_beaten and (is_full or hope != BEST_CANDIDATE):
            is_done = True

    # 4. At the limit nothing runs on.
    if beams_at_limit and at_limit and not is_done:
        for w in range(W):
            score, slot = running_score_BW[b, w] / norm, W + kept_BW[b, w]
            enter_finished_text(b, finished_score_BW, finished_length_BW, slot_BW, score, new, slot)
    at_B[b], trouble_B[b], done_B[b] = length, trouble, is_done or at_limit
    if not (is_done or at_limit):
        length_B[b] = length + 1


@cuda.jit(device=True)
def rank_in_warp(c, C, going, ending, in_order):
    """How many candidates run on before candidate c, from scores in shared memory and without branches."""
    before = 0
    for other in range(C):
        is_better, is_worse = going[other] > going[c], going[other] < going[c]
        if in_order:
            is_better, is_worse = ending[other] < ending[c], ending[other] > ending[c]
        before += is_better | ((other < c) & (not is_worse))
    return before


@cuda.jit(device=True)
def enter_finished_text(b, score_BW, length_BW, slot_BW, score, length, slot):
    """One more that finishes, behind its equals. From the last place up: who stands below it moves down."""
    W = score_BW.shape[1]
    w = W
    while w > 0 and score_BW[b, w - 1] < score:
        if w < W:
            score_BW[b, w], length_BW[b, w], slot_BW[b, w] = score_BW[b, w - 1], length_BW[b, w - 1], slot_BW[b, w - 1]
        w -= 1
    if w < W:
        score_BW[b, w], length_BW[b, w], slot_BW[b, w] = score, length, slot


@cuda.jit(device=True)
def rank_among_going(b, c, score_BC, token_BC, eos_X, mark, in_order):
    """How many candidates run on before this one. No two have the same place, though all be equal, or NaN."""
    mine_ends, mine = is_among(token_BC[b, c], eos_X), score_BC[b, c]
    if mine_ends:
        mine += mark
    before = 0
    for other in range(score_BC.shape[1]):
        ends, score = is_among(token_BC[b, other], eos_X), score_BC[b, other]
        if ends:
            score += mark
        is_better, is_worse = score > mine, score < mine
        if in_order:
            is_better, is_worse = mine_ends and not ends, ends and not mine_ends
        if is_better or (other < c and not is_worse):
            before += 1
    return before


# What each kernel is compiled and type-checked for, without a GPU.
_SCORES, _TABLE, _SENTENCES = float32[:, ::1], int64[:, ::1], int64[::1]
_RULES = (float32, *[int64] * 7)
_ARGUMENTS = (
    _SCORES, _TABLE, _TABLE, _SCORES, _SCORES, _TABLE, boolean[::1], _SENTENCES, _SENTENCES, _SENTENCES, float32[::1],
    _SENTENCES, *_RULES, _TABLE, _TABLE, _TABLE, boolean[:, ::1], _TABLE, _SENTENCES, _SENTENCES,
)  # fmt: skip
SIGNATURES = {advance_sentence: [_ARGUMENTS], advance_by_warp: [_ARGUMENTS]}
# A thread holds the addresses of 19 arrays; warps are few.
REGISTERS = {advance_sentence: 128, advance_by_warp: 128}
