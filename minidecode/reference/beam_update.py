"""A step's end for the bookkeeping of a beam search: who finishes, who runs on, and which sentences are done.

Each version gets what `result_arrays` makes: for each of the W beams the candidate that it becomes, for each of the W
places of finished texts who stands there now.
"""

from __future__ import annotations

import numpy as np

from ..ops import BEST_CANDIDATE, FINE, NOBODY, NONE_LEFT, NOT_A_NUMBER, PENALTY_TOO_STRONG


def result_arrays(score_BC, running_score_BW, out):
    """Arrays for the seven results, if no `out` is given."""
    if out is not None:
        return out
    kept_BW, parent_BW, token_BW, slot_BW = (
        np.empty_like(score_BC, np.int64, shape=running_score_BW.shape) for _ in range(4)
    )
    finishes_BC = np.empty_like(score_BC, np.bool_)
    at_B, trouble_B = (np.empty_like(score_BC, np.int64, shape=len(score_BC)) for _ in range(2))
    return kept_BW, parent_BW, token_BW, finishes_BC, slot_BW, at_B, trouble_B


def update_beams_naive(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    """Sentence by sentence, in the order of the rules."""
    answers = kept_BW, parent_BW, token_BW, finishes_BC, slot_BW, at_B, trouble_B = result_arrays(
        score_BC, running_score_BW, out
    )
    (B, C), W = score_BC.shape, running_score_BW.shape[1]
    for b in range(B):
        score_C, token_C, finished = score_BC[b], token_BC[b], (finished_score_BW[b], finished_length_BW[b], slot_BW[b])
        new = length_B[b] + 1 - prompt_B[b]  # tokens of the candidates, behind the prompt
        at_limit, norm = new >= limit_B[b], norm_X[new]
        slot_BW[b] = range(W)

        # 0. Where no candidate is possible, what has finished stands; with nothing finished, that is trouble.
        was_done, trouble_B[b] = done_B[b] or not score_C[0] > -np.inf, FINE
        if not done_B[b] and np.isnan(score_C[0]):
            trouble_B[b] = NOT_A_NUMBER
        elif was_done and not done_B[b] and not any(finished_length_BW[b]):
            trouble_B[b] = NONE_LEFT

        # 1. A candidate ends with EOS. Those that end among the W best finish, and are scored by their length.
        ends_C = [token in eos_X for token in token_C]
        free = W - sum(finished_length_BW[b] > 0)
        for c in range(C):
            finishes = ends_C[c] or (at_limit and rules.candidates_at_limit)
            finishes = finishes and c < W and not was_done
            if rules.first_stay:
                finishes = finishes and score_C[c] > -np.inf and free > 0
                free -= finishes
            finishes_BC[b, c] = finishes
            if finishes:
                _insert_finished(*finished, score_C[c] / norm, new, W + c)

        # 2. The W best that do not end run on; if there are too few of these, some of the others do, out of play.
        mark = score_C.dtype.type(rules.out_of_play)
        going_C = [score + mark if ends else score for score, ends in zip(score_C, ends_C, strict=True)]
        kept_BW[b] = sorted(range(C), key=lambda c: ends_C[c] if rules.in_order else -going_C[c])[:W]
        for w, c in enumerate(kept_BW[b]):
            parent_BW[b, w], token_BW[b, w], running_score_BW[b, w] = parent_BC[b, c], token_C[c], going_C[c]

        # 3. A sentence is done when W texts have finished and, it may be, nothing that runs can better the worst.
        is_full = all(finished_length_BW[b] > 0)
        is_done = was_done or (is_full and rules.full_is_done)
        if rules.hope != NOBODY:
            hope = score_C[0] if rules.hope == BEST_CANDIDATE else running_score_BW[b, 0]
            hoped = hope / norm_X[limit_B[b] if rules.hope_at_limit else new]
            if 2 * hope > rules.out_of_play >= hoped and not was_done:
                trouble_B[b] = PENALTY_TOO_STRONG
            is_beaten = hoped <= (finished_score_BW[b, -1] if is_full else rules.out_of_play)
            is_done = is_done or (is_beaten and (is_full or rules.hope != BEST_CANDIDATE))

        # 4. At the limit nothing runs on. What runs then may still finish as it is.
        if rules.beams_at_limit and at_limit and not is_done:
            for w in range(W):
                _insert_finished(*finished, running_score_BW[b, w] / norm, new, W + kept_BW[b, w])
        done_B[b] = is_done or at_limit
        at_B[b] = length_B[b]
        length_B[b] += not done_B[b]
    return answers


def _insert_finished(score_W, length_W, slot_W, score, length, slot) -> None:
    """One more that finishes, behind its equals: who stands below it moves down, and the last drops out."""
    place = int((score_W >= score).sum())
    for row_W, value in ((score_W, score), (length_W, length), (slot_W, slot)):
        row_W[place:] = [value, *row_W[place:-1]][: len(row_W) - place]


def update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    """All sentences at once: a line of those that have finished and those that do, sorted, and cut behind the W-th."""
    answers = kept_BW, parent_BW, token_BW, finishes_BC, slot_BW, at_B, trouble_B = result_arrays(
        score_BC, running_score_BW, out
    )
    (B, C), W = score_BC.shape, running_score_BW.shape[1]
    every_B1, mark = np.arange(B)[:, None], score_BC.dtype.type(rules.out_of_play)
    new_B = length_B + 1 - prompt_B
    at_limit_B, norm_B = new_B >= limit_B, norm_X[new_B]
    slot_BW[...] = np.arange(W)
    at_B[...] = length_B
    best_B = score_BC[:, 0]

    # Trouble, of sentences that go on.
    is_nan_B, none_B = np.isnan(best_B), np.isneginf(best_B)
    trouble_B[...] = np.where(is_nan_B, NOT_A_NUMBER, FINE)
    trouble_B[none_B & ~finished_length_BW.any(axis=1)] = NONE_LEFT
    trouble_B[done_B] = FINE
    done_B |= is_nan_B
    done_B |= none_B

    def merge_finished(score_BX, finishes_BX, slot_BX):
        if finishes_BX.any():
            entering_BX = np.where(finishes_BX, score_BX / norm_B[:, None], mark)
            line_BX = np.concatenate([finished_score_BW, entering_BX], axis=1)
            best_BW = np.argsort(-line_BX, axis=1, kind="stable")[:, :W]
            finished_score_BW[...] = line_BX[every_B1, best_BW]
            length_BX = np.broadcast_to(new_B[:, None], slot_BX.shape)
            finished_length_BW[...] = np.concatenate([finished_length_BW, length_BX], axis=1)[every_B1, best_BW]
            slot_BW[...] = np.concatenate([slot_BW, slot_BX], axis=1)[every_B1, best_BW]

    # Those that end among the W best of all finish.
    ends_BC = np.isin(token_BC, eos_X)
    finishes_BC[...] = (ends_BC | at_limit_B[:, None]) if rules.candidates_at_limit else ends_BC
    finishes_BC[:, W:] = False
    finishes_BC[done_B] = False
    if rules.first_stay:
        finishes_BC &= score_BC > -np.inf
        finishes_BC &= finishes_BC.cumsum(axis=1) <= (finished_length_BW == 0).sum(axis=1, keepdims=True)
    merge_finished(score_BC, finishes_BC, np.broadcast_to(W + np.arange(C), (B, C)))

    # The W best that do not end run on.
    going_BC = np.where(ends_BC, score_BC + mark, score_BC)
    kept_BW[...] = np.argsort(ends_BC if rules.in_order else -going_BC, axis=1, kind="stable")[:, :W]
    parent_BW[...], token_BW[...] = parent_BC[every_B1, kept_BW], token_BC[every_B1, kept_BW]
    running_score_BW[...] = going_BC[every_B1, kept_BW]

    # A sentence is done when nothing that runs can better what has finished, or at its limit.
    is_full_B = finished_length_BW.all(axis=1)
    settled_B = is_full_B if rules.full_is_done else np.zeros(B, bool)
    if rules.hope != NOBODY:
        hope_B = best_B if rules.hope == BEST_CANDIDATE else running_score_BW[:, 0]
        hoped_B = hope_B / norm_X[limit_B if rules.hope_at_limit else new_B]
        trouble_B[(2 * hope_B > mark) & (hoped_B <= mark) & ~done_B] = PENALTY_TOO_STRONG
        beaten_B = hoped_B <= np.where(is_full_B, finished_score_BW[:, -1], mark)
        settled_B = settled_B | (beaten_B & is_full_B if rules.hope == BEST_CANDIDATE else beaten_B)
    done_B |= settled_B
    if rules.beams_at_limit:
        merge_finished(running_score_BW, np.broadcast_to((at_limit_B & ~done_B)[:, None], (B, W)), W + kept_BW)
    done_B |= at_limit_B
    length_B += ~done_B
    return answers
