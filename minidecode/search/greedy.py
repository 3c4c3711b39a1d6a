"""One token at a time, one row per text: the likeliest token (greedy decoding), or one drawn at random (sampling)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..ops import FINE, NOT_A_NUMBER
from .options import Options
from .processors import any_due, process
from .result import Found, Request, check_choice, check_scores, refuse

if TYPE_CHECKING:
    from ..runtime.engine import Engine
    from .trace import Trace


def greedy(
    engine: Engine, request: Request, options: Options, on_token: Callable[[int, int], None] | None = None,
    trace: Trace | None = None,
) -> Found:  # fmt: skip
    """Every text until its EOS or its limit of new tokens. When sampling, num_return_sequences texts a sentence.

    A text that is done keeps its row until all are: the naive batch. on_token(row, id) is called for each token.
    A text scores the sum of the model's own log-probabilities of its tokens, before processors and filters, and a token
    that is forced counts 0; in fairseq, the sum of what its processors made of them.
    """
    ops, S = engine.ops, options.num_return_sequences
    is_by_logits = options.rules.greedy_scores == "logits"
    sentence_R = np.repeat(np.arange(len(request.prompts)), S)
    every_R = np.arange(len(sentence_R))
    prompt_R, limit_R = request.prompt_B[sentence_R], request.limit_B[sentence_R]
    tokens_RM = np.zeros((len(every_R), (prompt_R + limit_R).max()), np.int64)
    for r, b in enumerate(sentence_R):
        tokens_RM[r, : prompt_R[r]] = request.prompts[b]
    length_R, total_R = prompt_R.copy(), np.zeros(len(every_R))
    done_R = np.zeros(len(every_R), bool)

    logits_RV = ops.take(engine.prefill(request.prompts), sentence_R)
    engine.expand(S, int(request.limit_B.max()))
    step = 0
    while True:
        if options.rules.temperature_in_softmax:
            logits_RV /= logits_RV.dtype.type(options.temperature)
        rows = request.rows(tokens_RM, length_R - done_R, sentence_R)  # of who is done, what came before the end
        notes = {} if trace else None
        going_R = ~done_R
        if options.do_sample or not is_by_logits:
            logprobs_RV = ops.log_softmax(logits_RV)
            check_scores(logprobs_RV, sentence_R, step)
            # In place: nobody reads them any more.
            scores_RV = process(ops, logits_RV if is_by_logits else logprobs_RV, rows, options, notes)
        elif any_due(rows, np.ones_like(done_R), options):
            if options.logits_processor:  # then the user's function is not to blame
                check_scores(logits_RV, sentence_R, step)
            scores_RV = process(ops, ops.take(logits_RV, every_R), rows, options, notes)
        else:
            scores_RV = logits_RV
        if options.do_sample:
            chosen_R = ops.draw_tokens(scores_RV, request.keys_R2, np.full(len(every_R), step), options.seed)
            check_choice(scores_RV[every_R, chosen_R], done_R, sentence_R, step)
            gained_R = (logprobs_RV if is_by_logits else scores_RV)[every_R, chosen_R]
        else:
            chosen_R, gained_R, trouble_R = ops.choose_tokens(scores_RV, logits_RV if is_by_logits else None)
            refuse(np.where(going_R | (trouble_R == NOT_A_NUMBER), trouble_R, FINE), sentence_R, step)
        if is_by_logits:
            gained_R = np.where(rows.certain_R, 0.0, gained_R)
        total_R[going_R] += gained_R[going_R]
        done_R = done_R | np.isin(chosen_R, options.eos_token_id) | (length_R + 1 - prompt_R >= limit_R)
        if trace:
            trace.note_tokens(step, rows, chosen_R, total_R, going_R, done_R, notes)
        tokens_RM[going_R, length_R[going_R]] = chosen_R[going_R]
        length_R = length_R + going_R
        step += 1
        if on_token:
            for r in np.flatnonzero(going_R):
                on_token(int(r), int(chosen_R[r]))
        if done_R.all():
            break
        # A text that is done feeds its last token but one again: the last may lie beyond the context.
        logits_RV = engine.step(tokens_RM, length_R - done_R, every_R)

    scores_R = total_R / options.length_norm(length_R - prompt_R)
    texts = [tokens_RM[r, prompt_R[r] : length_R[r]].copy() for r in every_R]
    return Found([texts[i : i + S] for i in range(0, len(texts), S)], scores_R.reshape(-1, S), step)
