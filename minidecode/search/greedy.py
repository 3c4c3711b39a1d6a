"""Greedy decoding: the likeliest token, always."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .options import Options
from .processors import process
from .result import Found, check_choice, check_scores

if TYPE_CHECKING:
    from ..runtime.engine import Engine


def greedy(
    engine: Engine, prompts: list[np.ndarray], limit_B: np.ndarray, options: Options,
    on_token: Callable[[int, int], None] | None = None,
) -> Found:  # fmt: skip
    """One row per sentence until each has its EOS or limit_B[b] new tokens.

    A sentence that is done keeps its row until all are: the naive batch. on_token(b, id) is called for each token.
    """
    ops = engine.ops
    B = len(prompts)
    prompt_B = np.array([len(p) for p in prompts])
    tokens_BM = np.zeros((B, (prompt_B + limit_B).max()), np.int64)
    for b, prompt in enumerate(prompts):
        tokens_BM[b, : len(prompt)] = prompt
    length_B, score_B = prompt_B.copy(), np.zeros(B)
    done_B = np.zeros(B, bool)
    every_B = np.arange(B)

    logits_BV = engine.prefill(prompts)
    engine.expand(1)
    step = 0
    while True:
        scores_BV = ops.log_softmax(logits_BV)
        check_scores(scores_BV, every_B, step)
        scores_BV = process(ops, scores_BV, tokens_BM, length_B, prompt_B, limit_B, options)
        chosen_B = scores_BV.argmax(axis=1)
        check_choice(scores_BV[every_B, chosen_B], done_B, step)
        going_B = ~done_B
        score_B[going_B] += scores_BV[every_B, chosen_B][going_B]
        tokens_BM[going_B, length_B[going_B]] = chosen_B[going_B]
        length_B += going_B
        done_B |= np.isin(chosen_B, options.eos_token_id) | (length_B - prompt_B >= limit_B)
        step += 1
        if on_token:
            for b in np.flatnonzero(going_B):
                on_token(int(b), int(chosen_B[b]))
        if done_B.all():
            break
        # A sentence that is done feeds its last token but one again: the last may lie beyond the context.
        logits_BV = engine.step(tokens_BM, length_B - done_B, every_B)

    new_B = length_B - prompt_B
    scores = score_B / new_B**options.length_penalty
    rows = [[tokens_BM[b, prompt_B[b] : length_B[b]].copy()] for b in range(B)]
    return Found(rows, scores[:, None], step)
