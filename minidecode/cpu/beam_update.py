"""The bookkeeping of a beam search's step, compiled for the CPU: a loop over sentences, and no array in between."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np

from ..ops import BEST_CANDIDATE, FINE, NOBODY, NONE_LEFT, NOT_A_NUMBER, PENALTY_TOO_STRONG
from ..reference.beam_update import result_arrays
from .common.jit import njit
from .common.tokens import is_among


def update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    """Goes through the rules in the naive version's order. NumPy makes some 60 calls, however few sentences."""
    out = result_arrays(score_BC, running_score_BW, out)
    mark, *flags = astuple(rules)
    _update_beams(
        score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B,
        prompt_B, limit_B, norm_X, eos_X, score_BC.dtype.type(mark), *flags, *out,
    )  # fmt: skip
    return out


@njit(cache=True)
def _update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, mark, first_stay, full_is_done, hope, hope_at_limit, candidates_at_limit, beams_at_limit,
    in_order, kept_BW, parent_BW, token_BW, finishes_BC, slot_BW, at_B, trouble_B,
):  # fmt: skip
    (B, C), W = score_BC.shape, running_score_BW.shape[1]
    for b in range(B):
        score_C, finished = score_BC[b], (finished_score_BW[b], finished_length_BW[b], slot_BW[b])
        new = length_B[b] + 1 - prompt_B[b]
        at_limit, norm = new >= limit_B[b], norm_X[new]
        free = 0
        for w in range(W):
            slot_BW[b, w] = w
            free += finished_length_BW[b, w] == 0
        trouble_B[b], is_done = FINE, done_B[b]
        if np.isnan(score_C[0]) or score_C[0] == -np.inf:
            if not is_done:
                nothing = NONE_LEFT if free == W else FINE
                trouble_B[b] = NOT_A_NUMBER if np.isnan(score_C[0]) else nothing
            is_done = True
        was_done = is_done

        ends_C, going_C = np.empty(C, np.bool_), np.empty(C, score_BC.dtype)
        for c in range(C):
            ends_C[c] = is_among(token_BC[b, c], eos_X)
            going_C[c] = score_C[c] + mark if ends_C[c] else score_C[c]
            finishes = (ends_C[c] or (at_limit and candidates_at_limit)) and c < W and not was_done
            if first_stay:
                finishes = finishes and score_C[c] > -np.inf and free > 0
                free -= finishes
            finishes_BC[b, c] = finishes
            if finishes:
                _enter_finished(finished, score_C[c] / norm, new, W + c)
        for w in range(W):
            c = find_next_beam(kept_BW[b, :w], ends_C, going_C, in_order)
            kept_BW[b, w], parent_BW[b, w], token_BW[b, w] = c, parent_BC[b, c], token_BC[b, c]
            running_score_BW[b, w] = going_C[c]

        is_full = True
        for w in range(W):
            is_full &= finished_length_BW[b, w] > 0
        is_done |= is_full and full_is_done
        if hope != NOBODY:
            hoping = score_C[0] if hope == BEST_CANDIDATE else running_score_BW[b, 0]
            hoped = hoping / norm_X[limit_B[b] if hope_at_limit else new]
            if hoping + hoping > mark and hoped <= mark and not was_done:
                trouble_B[b] = PENALTY_TOO_STRONG
            is_beaten = hoped <= (finished_score_BW[b, W - 1] if is_full else mark)
            is_done |= is_beaten and (is_full or hope != BEST_CANDIDATE)
        if beams_at_limit and at_limit and not is_done:
            for w in range(W):
                _enter_finished(finished, running_score_BW[b, w] / norm, new, W + kept_BW[b, w])
        done_B[b] = is_done or at_limit
        at_B[b] = length_B[b]
        length_B[b] += not done_B[b]


@njit(cache=True)
def _enter_finished(finished, score, length, slot):
    """From the last place up: who stands below the newcomer moves down."""
    score_W, length_W, slot_W = finished
    W = len(score_W)
    w = W
    while w > 0 and score_W[w - 1] < score:
        if w < W:
            score_W[w], length_W[w], slot_W[w] = score_W[w - 1], length_W[w - 1], slot_W[w - 1]
        w -= 1
    if w < W:
        score_W[w], length_W[w], slot_W[w] = score, length, slot


@njit(cache=True)
def find_next_beam(kept_X, ends_C, going_C, in_order):
    """The first of the best candidates that is not kept yet; in order, the first that does not end."""
    best = -1
    for c in range(len(going_C)):
        if is_among(c, kept_X):
            continue
        if best < 0 or (ends_C[best] and not ends_C[c] if in_order else going_C[c] > going_C[best]):
            best = c
    return best
