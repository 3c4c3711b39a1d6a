"""Beam search with array state, as transformers 5 runs it, but with every sentence on its own.

Two sets of W hypotheses per sentence: `running`, which go on, and `finished`, the best that ended so far. Scores of
running hypotheses are sums of log-probabilities; finished ones are divided by length ** length_penalty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .options import Options
from .processors import process
from .result import Found, check_choice, check_scores

if TYPE_CHECKING:
    from ..runtime.engine import Engine

NEVER = -1.0e9  # transformers' mark of what is out of play; finite, so that sums of it stay numbers


def beam_search(engine: Engine, prompts: list[np.ndarray], limit_B: np.ndarray, options: Options) -> Found:
    """The num_return_sequences best hypotheses of each sentence, under at most limit_B[b] new tokens."""
    ops, W, eos = engine.ops, options.num_beams, options.eos_token_id
    B, C = len(prompts), options.candidates
    prompt_B = np.array([len(p) for p in prompts])
    sentence_R = np.repeat(np.arange(B), W)
    every_B1 = np.arange(B)[:, None]

    # The last column is spare: a sentence that is done stays in the batch and writes there.
    running_BWM = np.zeros((B, W, (prompt_B + limit_B).max() + 1), np.int64)
    for b, prompt in enumerate(prompts):
        running_BWM[b, :, : len(prompt)] = prompt
    finished_BWM = running_BWM.copy()
    finished_length_BW = np.zeros((B, W), np.int64)
    is_finished_BW = np.zeros((B, W), bool)
    done_B = np.zeros(B, bool)

    # One row per sentence goes through the prompt; its scores then stand for W beams, all but the first out of play.
    logits_RV = ops.take(engine.prefill(prompts), sentence_R)
    engine.expand(W)
    running_score_BW = np.full((B, W), NEVER, logits_RV.dtype)
    running_score_BW[:, 0] = 0.0
    finished_score_BW = np.full((B, W), NEVER, logits_RV.dtype)
    length_B = prompt_B.copy()
    step = 0
    while True:
        # 1. Score every continuation of every beam.
        scores_RV = ops.log_softmax(logits_RV)
        check_scores(scores_RV, sentence_R, step)
        V = scores_RV.shape[1]
        tokens_RM = running_BWM.reshape(B * W, -1)
        rows = (length_B[sentence_R], prompt_B[sentence_R], limit_B[sentence_R])
        scores_RV = process(ops, scores_RV, tokens_RM, *rows, options)
        scores_BWV = scores_RV.reshape(B, W, V) + running_score_BW[:, :, None]

        # 2. The C best of each sentence, beams together.
        score_BC, index_BC = ops.top_candidates(scores_BWV.reshape(B, W * V), C)
        check_choice(score_BC[:, 0], done_B, step)
        parent_BC, token_BC = np.divmod(index_BC, V)
        candidate_BCM = running_BWM[every_B1, parent_BC]
        candidate_BCM[every_B1, np.arange(C), length_B[:, None]] = token_BC
        step += 1
        ends_BC = np.isin(token_BC, eos) | (step >= limit_B)[:, None]

        # 3. The W best that do not end are the new running beams.
        going_score_BC = np.where(ends_BC, score_BC + score_BC.dtype.type(NEVER), score_BC)
        keep_BW = np.argsort(-going_score_BC, axis=1, kind="stable")[:, :W]
        running_BWM = candidate_BCM[every_B1, keep_BW]
        running_score_BW = going_score_BC[every_B1, keep_BW]
        parent_BW = parent_BC[every_B1, keep_BW]

        # 4. Those that end among the W best overall may enter the finished set, by their penalised scores.
        enters_BC = ends_BC & (np.arange(C) < W) & ~done_B[:, None]
        ended_score_BC = np.where(enters_BC, score_BC / step**options.length_penalty, NEVER)
        both_score = np.concatenate([finished_score_BW, ended_score_BC.astype(score_BC.dtype)], axis=1)
        best_BW = np.argsort(-both_score, axis=1, kind="stable")[:, :W]
        finished_score_BW = both_score[every_B1, best_BW]
        finished_BWM = np.concatenate([finished_BWM, candidate_BCM], axis=1)[every_B1, best_BW]
        new_length_BC = np.full((B, C), step)
        finished_length_BW = np.concatenate([finished_length_BW, new_length_BC], axis=1)[every_B1, best_BW]
        is_finished_BW = np.concatenate([is_finished_BW, enters_BC], axis=1)[every_B1, best_BW]

        # 5. A sentence is done when nothing that still runs could change its finished set.
        done_B |= (
            ~could_improve(running_score_BW[:, 0], finished_score_BW, is_finished_BW, step, limit_B, options)
            | (is_finished_BW.all(axis=1) & (options.early_stopping is True))
            | ends_BC.all(axis=1)
        )
        if done_B.all():
            break
        length_B += ~done_B  # a sentence that is done feeds the token before its last again, and again
        parent_R = (parent_BW + every_B1 * W).reshape(-1)
        logits_RV = engine.step(running_BWM.reshape(B * W, -1), length_B[sentence_R], parent_R)

    # A place that no text filled, or only one that was out of play from its first step, stays empty.
    sums_BW = finished_score_BW * np.maximum(finished_length_BW, 1) ** options.length_penalty
    filled_BW = is_finished_BW & (sums_BW > NEVER / 2)
    finished_length_BW = np.where(filled_BW, finished_length_BW, 0)
    tokens = [
        [finished_BWM[b, w, prompt_B[b] : prompt_B[b] + finished_length_BW[b, w]].copy()
         for w in range(options.num_return_sequences)]
        for b in range(B)
    ]  # fmt: skip
    score_BW = np.where(filled_BW, finished_score_BW, -np.inf)
    return Found(tokens, score_BW[:, : options.num_return_sequences], step)


def could_improve(best_running_B, finished_score_BW, is_finished_BW, step, limit_B, options):
    """Whether the best running beam, at a hopeful length, beats the worst finished hypothesis of its sentence.

    The hopeful length is the present one; with early_stopping="never" and a positive penalty, the greatest allowed.
    An unfilled place among the finished counts as a score that anything beats.
    """
    hopeful_B = limit_B if options.early_stopping == "never" and options.length_penalty > 0 else step
    hopeful_score_B = best_running_B / np.asarray(hopeful_B**options.length_penalty, best_running_B.dtype)
    worst_B = np.where(is_finished_BW, finished_score_BW.min(axis=1, keepdims=True), NEVER).min(axis=1)
    return hopeful_score_B > worst_B
