"""One token at a time, one row per text: the likeliest token (greedy decoding), or one drawn at random (sampling)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..ops import ALL_DONE, SOME_DONE, TROUBLE
from ..runtime.device import array_like, fetch
from .options import Options
from .processors import any_due, process
from .result import Found, Request, check_logits, clear_trouble, copy_found, raise_trouble, scaled_logits

if TYPE_CHECKING:
    from ..runtime.engine import Engine
    from .trace import Trace


def greedy(
    engine: Engine, request: Request, options: Options, on_token: Callable[[int, int], None] | None = None,
    trace: Trace | None = None,
) -> Found:  # fmt: skip
    """Every text until its EOS or its limit of new tokens. When sampling, num_return_sequences texts a sentence.

    A text that is done keeps its row until all are (the naive batch), or until those of its sentence are, which leaves
    then (engine.leaving). on_token(row, id) is called for each token, by the row in which its text began.
    A text scores the sum of the model's own log-probabilities of its tokens, before processors and filters, and a token
    that is forced counts 0; in fairseq, the sum of what its processors made of them.
    Of a step the host looks at one number, `flag`, and with on_token at the ids of the tokens; leaving, a trace, and
    processors that are no ops, look at what they need.
    """
    ops, S = engine.ops, options.num_return_sequences
    is_by_logits = options.rules.greedy_scores == "logits"
    sentence_R = np.repeat(np.arange(len(request.prompts)), S)
    row_R = np.arange(len(sentence_R))
    prompt_R, limit_R = request.prompt_B[sentence_R], request.limit_B[sentence_R]

    logits_BV = engine.prefill(request.prompts)
    logits_RV = ops.gather_rows(logits_BV, np.asarray(sentence_R, like=logits_BV))
    engine.expand(S, int(request.limit_B.max()))
    text_BM = request.texts_with_room(int((prompt_R + limit_R).max()))
    tokens_RM = array_like(logits_RV, (len(row_R), text_BM.shape[1]), np.int64, text_BM[sentence_R])
    length_R, total_R = (array_like(logits_RV, len(row_R), *kind) for kind in ((np.int64, prompt_R), (np.float64, 0)))
    done_R, nobody_R = (array_like(logits_RV, len(row_R), bool, False) for _ in range(2))
    # What ops get at every step: none of it changes but which rows are left.
    every_R, begins_R, limits_R = (array_like(logits_RV, len(row_R), np.int64, a) for a in (row_R, prompt_R, limit_R))
    eos_X = array_like(logits_RV, len(options.eos_token_id), np.int64, options.eos_token_id)
    draws, stopping = request.draws(logits_RV), request.stopping
    streams_R = np.ones(len(row_R), bool)  # whose tokens on_token is still to get
    all_texts = tokens_RM, length_R, total_R
    step = 0
    while True:
        logits_RV = scaled_logits(ops, logits_RV, options)
        rows = request.rows(tokens_RM, length_R - done_R, sentence_R, step)  # of who is done, what came before the end
        notes = {} if trace else None
        model_trouble_R = None  # then argmax_tokens looks at the logits themselves
        if options.do_sample or not is_by_logits:  # noted before processors, which may hide it
            logprobs_RV, model_trouble_R = ops.log_softmax(logits_RV)
            clear_trouble(model_trouble_R, done_R)
            if options.logits_processor:  # the user's function is not to blame
                raise_trouble(model_trouble_R, sentence_R, step)
            # In place: no op reads them any more.
            scores_RV = process(ops, logits_RV if is_by_logits else logprobs_RV, rows, options, notes)
        elif any_due(rows, options):
            if options.logits_processor:
                check_logits(logits_RV, done_R, sentence_R, step)
            scores_RV = process(ops, ops.gather_rows(logits_RV, every_R), rows, options, notes)
        else:
            scores_RV = logits_RV
        if options.do_sample:
            chosen_R = ops.sample_tokens(scores_RV, draws.keys_R2, draws.step_R, options.seed)
            gained_R, trouble_R = ops.gather_logprobs(chosen_R, scores_RV, logprobs_RV if is_by_logits else None)
        else:
            chosen_R, gained_R, trouble_R = ops.argmax_tokens(scores_RV, logits_RV if is_by_logits else None)
        clear_trouble(trouble_R, done_R)
        going_R = ~done_R if trace else None
        if stopping and stopping.is_late:
            limits_R[...] = step + 1
        flag = int(ops.extend_sequences(
            tokens_RM, chosen_R, gained_R, rows.certain_R if is_by_logits else nobody_R, trouble_R, total_R, length_R,
            done_R, begins_R, limits_R, eos_X, model_trouble_R,
        )[0])  # fmt: skip
        if flag & TROUBLE:
            if model_trouble_R is not None:
                raise_trouble(model_trouble_R, sentence_R, step)
            raise_trouble(trouble_R, sentence_R, step)
        if stopping and stopping.looks_at_texts:
            ids_RM, lengths_R = fetch(tokens_RM), fetch(length_R)
            texts = [ids_RM[r, : lengths_R[r]] for r in range(len(ids_RM))]
            end_R = stopping.ends(texts, prompt_R, fetch(scores_RV)) & ~fetch(done_R)
            if end_R.any():
                done_R |= np.asarray(end_R, like=done_R)
                flag |= SOME_DONE | (ALL_DONE if fetch(done_R).all() else 0)
        if trace:
            trace.note_tokens(step, rows.on_host, *map(fetch, (chosen_R, total_R, going_R, done_R)), notes)
        step += 1
        if draws:
            draws.next()
        if on_token:
            ids_R = fetch(chosen_R)
            for r in np.flatnonzero(streams_R):
                on_token(int(row_R[r]), int(ids_R[r]))
            streams_R &= ~fetch(done_R)
        if flag & ALL_DONE:
            break
        if engine.drop_finished and flag & SOME_DONE and (done_B := fetch(done_R).reshape(-1, S).all(axis=1)).any():
            copy_found((tokens_RM, length_R, total_R), all_texts, np.repeat(done_B, S), row_R)
            stays_R = np.flatnonzero(np.repeat(~done_B, S))
            tokens_RM, length_R, total_R, done_R = (a[stays_R] for a in (tokens_RM, length_R, total_R, done_R))
            row_R, sentence_R, prompt_R, limit_R = (a[stays_R] for a in (row_R, sentence_R, prompt_R, limit_R))
            every_R, nobody_R, streams_R = every_R[: len(stays_R)], nobody_R[: len(stays_R)], streams_R[stays_R]
            begins_R, limits_R, draws = begins_R[stays_R], limits_R[stays_R], draws and draws.of(stays_R)
            engine.leave(np.flatnonzero(~done_B), S)
        # A text that is done feeds its last token but one again: the last may lie beyond the context.
        logits_RV = engine.step(tokens_RM, length_R - done_R, None)

    copy_found((tokens_RM, length_R, total_R), all_texts, np.arange(len(row_R)), row_R)
    (tokens_RM, length_R, total_R), prompt_R = map(fetch, all_texts), np.repeat(request.prompt_B, S)
    scores_R = total_R / options.length_norm(length_R - prompt_R)
    texts = [tokens_RM[r, prompt_R[r] : length_R[r]].copy() for r in range(len(prompt_R))]
    return Found([texts[i : i + S] for i in range(0, len(texts), S)], scores_R.reshape(-1, S), step)
