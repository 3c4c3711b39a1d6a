"""Speculative decoding (Leviathan et al. 2023, Chen et al. 2023): one forward pass reads several guessed tokens.

A step reads a text's newest token and its draft, a guess of what comes next (drafts.py). So it has the model's scores
after each of them. As many tokens of the draft are accepted as the model itself would have chosen, and the scores after
the last accepted one give one token more. What is wrong is taken back. So greedy search finds the tokens that it finds
without drafts, up to ties, and samples have the same distribution. The cost moves from steps to rows: it pays where
reading weights takes longer than multiplying, and drafts are often right.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..options.options import Options
from ..runtime.drafted import DraftCheckingEngine
from ..runtime.receipt import DraftCounts
from .drafts import OF_VERDICT, Draft, Drafter, softmax_in_float64, texts_after_drafts
from .greedy import Chosen, Texts, make_found, next_tokens
from .result import Found, Request, raise_trouble


def accept_or_redraw(p_V: np.ndarray, q_V: np.ndarray, guessed: int, u: float, v: float) -> int:
    """A token drawn from p, made of one that was drawn from q: itself with probability min(1, p / q), or another.

    The other one is drawn from max(0, p - q), normalised: of those the draft guesses too seldom, in proportion. u and
    v: random numbers in (0, 1). (Leviathan et al. 2023, section 2.3 and appendix A.1.)
    """
    if u * q_V[guessed] < p_V[guessed]:
        return guessed
    residual_V = np.maximum(p_V - q_V, 0.0)
    cumulative_V = np.cumsum(residual_V)
    return int(np.searchsorted(cumulative_V, v * cumulative_V[-1]))  # of NaN it is 0, and the step raises what they are


def speculative_search(
    engine: DraftCheckingEngine, request: Request, options: Options, drafter: Drafter,
    on_token: Callable[[int, int], None] | None = None,
) -> Found:  # fmt: skip
    """Every text until its EOS or its limit, as `greedy_search` does it, several tokens a step where drafts are right.

    Texts that are done have no rows in a step, the others as many as their drafts have tokens, and one.
    on_token: as in `greedy_search`.
    """
    ops, S, steps = engine.ops, options.num_return_sequences, int(request.limit_B.max())
    logits_BV = engine.prefill(request.prompts)
    sentence_R = np.repeat(np.arange(len(request.prompts)), S)
    engine.expand(S, steps)
    drafter.start(request, S, steps)
    logits_XV = ops.gather_rows(logits_BV, sentence_R)
    texts = Texts.start(request, sentence_R, logits_XV, options, engine)
    going_X, drafts = texts.row_R, [Draft(np.empty(0, np.int64)) for _ in sentence_R]
    counts, rounds = [DraftCounts() for _ in sentence_R], 1
    while True:
        # 1. Choose a token after each that was read, as if the guesses were true.
        rows_of_X = np.array([len(draft.ids) + 1 for draft in drafts])
        text_X, first_X = np.repeat(going_X, rows_of_X), np.cumsum(rows_of_X) - rows_of_X
        length_X = texts.length_R[text_X] + np.arange(len(text_X)) - np.repeat(first_X, rows_of_X)
        rows = texts_after_drafts(texts, request, options, texts.tokens_RM[text_X], text_X, length_X)
        is_drawn = any(draft.probability_V for draft in drafts)
        draw = functools.partial(_choose_tokens, ops, rows, drafts, options) if is_drawn else None
        chosen = next_tokens(ops, logits_XV, rows, request, options, None, None, draw=draw)

        # 2. A text takes the tokens up to the first that was not guessed, which is the model's own.
        for r, first, draft in zip(going_X, first_X, drafts, strict=True):
            right = int(np.append(chosen.token_R[first : first + len(draft.ids)] == draft.ids, False).argmin())
            taken = _append_chosen(texts, request, r, rows, chosen, range(first, first + right + 1))
            if rounds > 1:
                counts[r].add(len(draft.ids), min(right, len(taken)))
            if on_token is not None:
                for token in taken:
                    on_token(int(r), token)
        going_X = np.flatnonzero(~texts.done_R)
        if not len(going_X):
            break

        # 3. Guess again, and read the newest token and the guess. Of the last guess, what was wrong is taken back.
        left_R = texts.begins_R + texts.limits_R - texts.length_R
        started = time.perf_counter()
        drafts = drafter.drafts(texts, going_X, np.minimum(left_R - 1, options.tokens_ahead)[going_X])
        engine.seconds["drafts"] += time.perf_counter() - started
        engine.take_back(texts.length_R - 1)
        length_X = texts.length_R[going_X]
        for r, length, draft in zip(going_X, length_X, drafts, strict=True):
            texts.tokens_RM[r, length : length + len(draft.ids)] = draft.ids
        logits_XV = engine.read_new_tokens(texts.tokens_RM, going_X, length_X + [len(draft.ids) for draft in drafts])
        rounds += 1
    return dataclasses.replace(make_found(texts, request, options, rounds), drafts=counts)


def _append_chosen(texts: Texts, request: Request, r: int, rows: Texts, chosen: Chosen, mine: range) -> list[int]:
    """Text r gets the tokens that these rows chose, up to the first that ends it -> the tokens."""
    taken: list[int] = []
    for x in mine:
        for trouble_R in (chosen.model_trouble_R, chosen.trouble_R):
            if trouble_R is not None:
                step = int(texts.length_R[r] - texts.begins_R[r])
                raise_trouble(trouble_R[x : x + 1], rows.sentence_R[x : x + 1], step)
        taken.append(int(chosen.token_R[x]))
        texts.tokens_RM[r, texts.length_R[r]] = taken[-1]
        texts.total_R[r] += rows.total_R[x]
        texts.length_R[r] += 1
        text, begin = texts.tokens_RM[r, : texts.length_R[r]], texts.begins_R[r]
        stopping = request.stopping  # of strings alone: functions and the clock do not go with drafts
        texts.done_R[r] = rows.done_R[x] or (
            stopping is not None and stopping.ends_in_stop_string(text[:begin], text[begin:])
        )
        if texts.done_R[r]:
            break
    return taken


def _choose_tokens(ops: Any, rows: Texts, drafts: list[Draft], options: Options, scores_XV: np.ndarray) -> np.ndarray:
    """Each row's token: by the verdict on the one that was guessed, and behind the last guess a draw."""
    draws = rows.draws
    assert draws is not None  # it is asked for where tokens are drawn
    token_X = ops.sample_tokens(scores_XV, draws.keys_R2, draws.step_R, options.seed)
    noise_X2 = ops.gumbel(draws.keys_R2 ^ np.uint32(OF_VERDICT), draws.step_R, 2, options.seed)
    random_X2 = np.exp(-np.exp(-noise_X2))
    first = 0
    for draft in drafts:
        for x, (guessed, q_V) in enumerate(zip(draft.ids, draft.probability_V, strict=True), first):
            token_X[x] = accept_or_redraw(softmax_in_float64(scores_XV[x]), q_V, int(guessed), *random_X2[x])
        first += len(draft.ids) + 1
    return token_X
