"""One token at a time, one row per text: the likeliest token (greedy decoding), or one drawn at random (sampling)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..device.arrays import array_like, fetch
from ..ops import ALL_DONE, SOME_DONE, TROUBLE
from ..options.options import Options
from ..runtime.draws import Draws
from ..runtime.engine import Engine
from ..runtime.kept import Kept
from ..runtime.trace import Trace
from .looks import Looks, Past
from .processors import (
    apply_processors,
    is_any_due,
    key_of_step,
    make_tables,
    process_and_log_softmax,
    remove_invalid_values,
    why_in_parts,
)  # fmt: skip
from .result import (
    Found,
    Request,
    check_logits,
    clear_trouble,
    copy_results,
    raise_trouble,
    scale_logits,
    with_copied_results,
)
from .rows import Rows
from .stopping import Stopping
from .tables import arrays_of_tables, copies_without_rows


def greedy_search(
    engine: Engine, request: Request, options: Options, on_token: Callable[[int, int], None] | None = None,
    trace: Trace | None = None, kept: Kept | None = None,
) -> Found:  # fmt: skip
    """Every text until its EOS or its limit of new tokens. When sampling, num_return_sequences texts a sentence.

    A text that is done keeps its row until all texts are. Under `drop_finished` a sentence leaves the batch when its
    texts are done. on_token(row, id) is called for each token, by the row in which its text began.
    A text scores the sum of the model's own log-probabilities of its tokens, before processors and filters, and a token
    that is forced counts 0; in fairseq and ctranslate2, the sum of what processors made of them.
    The host reads one number per look (looks.py), and with on_token the ids of the tokens. Sentences that leave, a
    trace, and processors that are no ops read what they need.
    """
    ops, S = engine.ops, options.num_return_sequences
    logits_BV = engine.prefill(request.prompts)
    sentence_R = np.repeat(np.arange(len(request.prompts)), S)
    logits_RV = ops.gather_rows(logits_BV, np.asarray(sentence_R, like=logits_BV))
    engine.expand(S, int(request.limit_B.max()))
    texts = every_text = Texts.start(request, sentence_R, logits_RV, options, engine)
    stopping, said, refused = request.stopping, repr(options), why_in_parts(options, bool(trace or kept))
    looks, streams = Looks.start(engine, request, options, refused), Streams(on_token, request, options, len(texts))
    if looks.are_rare:
        texts.past = Past.start(logits_RV, len(texts), len(texts))
    step = 0
    chosen = next_tokens(ops, logits_RV, texts, request, options, step, trace, kept)
    while True:
        step += 1  # steps that have run
        rows = request.rows_at(texts.sentence_R, step)
        key = refused or key_of_step(rows, options)
        if looks.are_due(texts.past, rows, key):
            report = looks.look(step, texts.past, chosen.flag, chosen.trouble_R, chosen.model_trouble_R)
            flag = report.flag
            if flag & TROUBLE:
                streams.call_on_token(texts, chosen, report.step)
                if report.model_trouble_R is not None:
                    raise_trouble(report.model_trouble_R, texts.sentence_R, report.step)
                raise_trouble(report.trouble_X, texts.sentence_R, report.step)
            if stopping and stopping.looks_at_texts:
                flag |= texts.stop(stopping, request, chosen.scores_RV)
            if trace:
                note_tokens(trace, report.step, texts, chosen)
            streams.call_on_token(texts, chosen, looks.steps)
            if flag & ALL_DONE:
                break

            # Sentences that are done leave the batch, if the plan says so.
            if engine.drop_finished and flag & SOME_DONE:
                done_B = np.all(fetch(texts.done_R).reshape(-1, S), axis=1)
                stays_B = engine.sentences_that_stay(done_B)
                if len(stays_B) < len(done_B):
                    if every_text is texts:
                        every_text = with_copied_results(texts)
                    copy_results(texts.result_arrays(), every_text.result_arrays(), np.repeat(done_B, S), texts.row_R)
                    stays_R = (stays_B[:, None] * S + np.arange(S)).reshape(-1)
                    texts = texts.of_rows(stays_R, request, options)
                    streams.keep_only(stays_R)
                    engine.keep_only(stays_B, S)

        def one_step(texts: Texts, step: int = step) -> Chosen:
            """The new tokens go through the model, and its scores choose the next ones.

            A text that is done feeds its second-to-last token again: the last may lie beyond the context.
            """
            logits_RV = engine.step(texts.tokens_RM, texts.length_R - texts.done_R, None)
            return next_tokens(ops, logits_RV, texts, request, options, step, trace, kept)

        texts, chosen = engine.run_step(one_step, texts, said, key)

    copy_results(texts.result_arrays(), every_text.result_arrays(), np.arange(len(texts.row_R)), texts.row_R)
    result = make_found(every_text, request, options, looks.steps)
    if kept:
        kept.find_texts(result.tokens)
    return result


@dataclass
class Chosen:
    """What a step chose, and what the host may ask of it."""

    flag: np.ndarray  # one number: ALL_DONE, SOME_DONE, TROUBLE
    token_R: np.ndarray
    trouble_R: np.ndarray  # what is wrong with the scores from which a row chose
    model_trouble_R: np.ndarray | None  # and with the model's own, before processors
    scores_RV: np.ndarray
    rows: Rows
    going_R: np.ndarray | None  # for a trace: which texts were going on
    notes: dict[str, np.ndarray] | None  # and what processors changed


def next_tokens(
    ops: Any, logits_RV: np.ndarray, texts: Texts, request: Request, options: Options, step: int | None,
    trace: Trace | None, kept: Kept | None = None, draw: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Chosen:  # fmt: skip
    """A step's choice: every text that goes on gets its likeliest token, or one that is drawn, and may end with it.

    draw: what draws a token from each row of scores, in place of `sample_tokens`.
    """
    is_by_logits = options.rules.greedy_scores == "logits"

    # 1. Score the next token of every text.
    if kept:
        kept.note_rows("logits", logits_RV, texts.row_R, texts.done_R)
    logits_RV = scale_logits(ops, logits_RV, options)
    rows = texts.rows(request, step)
    if options.remove_invalid_values:
        logits_RV = remove_invalid_values(ops, logits_RV, rows, options)
    notes: dict[str, np.ndarray] | None = {} if trace else None
    model_trouble_R = None  # then argmax_tokens looks at the logits themselves
    if options.rules.softmax == "last":
        scores_RV, model_trouble_R = process_and_log_softmax(ops, logits_RV, rows, options, notes)
        clear_trouble(model_trouble_R, texts.done_R)
    elif options.do_sample or not is_by_logits:  # noted before processors, which may hide it
        logprobs_RV, model_trouble_R = ops.log_softmax(logits_RV)
        clear_trouble(model_trouble_R, texts.done_R)
        if options.logits_processor:  # the user's function is not to blame
            assert step is not None  # it has no neighbours at other steps
            raise_trouble(model_trouble_R, texts.sentence_R, step)
        # In place: nothing reads them any more.
        scores_RV = apply_processors(ops, logits_RV if is_by_logits else logprobs_RV, rows, options, notes)
    elif is_any_due(rows, options):
        if options.logits_processor:
            assert step is not None
            check_logits(logits_RV, texts.done_R, texts.sentence_R, step)
        scores_RV = apply_processors(ops, ops.gather_rows(logits_RV, texts.every_R), rows, options, notes)
    else:
        scores_RV = logits_RV

    if kept:
        kept.note_rows("scores", scores_RV, texts.row_R, texts.done_R)

    # 2. Choose it: the likeliest, or one that is drawn.
    if (draws := texts.draws) is not None:
        if draw is None:
            token_R = ops.sample_tokens(scores_RV, draws.keys_R2, draws.step_R, options.seed)
        else:
            token_R = draw(scores_RV)
        gained_R, trouble_R = ops.gather_logprobs(token_R, scores_RV, logprobs_RV if is_by_logits else None)
        draws.next()
    else:
        token_R, gained_R, trouble_R = ops.argmax_tokens(scores_RV, logits_RV if is_by_logits else None)
    clear_trouble(trouble_R, texts.done_R)
    certain_R = rows.certain_R if is_by_logits else texts.nobody_R
    if kept:
        kept.note_gains(np.where(certain_R, 0.0, gained_R), texts.row_R)

    # 3. The texts get it.
    going_R = ~texts.done_R if trace else None
    if step is not None and request.stopping and request.stopping.is_last(step):
        texts.limits_R[...] = step + 1
    flag = texts.extend(ops, token_R, gained_R, certain_R, trouble_R, model_trouble_R)
    if texts.past:
        texts.past.note(flag, trouble_R, model_trouble_R)
    return Chosen(flag, token_R, trouble_R, model_trouble_R, scores_RV, rows, going_R, notes)


@dataclass
class Texts:
    """One row per text: prompts and new tokens, and what ops are given with them. The host keeps rows and sentences."""

    tokens_RM: np.ndarray
    length_R: np.ndarray  # prompt included
    total_R: np.ndarray  # sum of log-probabilities of the new tokens
    done_R: np.ndarray
    every_R: np.ndarray  # 0, 1, 2, ..: all rows
    nobody_R: np.ndarray  # False in each row
    begins_R: np.ndarray  # where new tokens begin: the tokens of the prompt
    limits_R: np.ndarray  # most new tokens
    eos_X: np.ndarray
    draws: Draws | None  # for sampling: who draws, and for which token
    tables: dict[Any, Any]  # what processors need at every step
    row_R: np.ndarray  # in which row the text began
    sentence_R: np.ndarray
    past: Past | None = None  # what steps told, where the host does not look at each

    @classmethod
    def start(
        cls, request: Request, sentence_R: np.ndarray, like_RV: np.ndarray, options: Options,
        engine: Engine,
    ) -> Texts:  # fmt: skip
        """Each row holds the prompt of its sentence, in front of as many places as it may have new tokens."""
        row_R = np.arange(len(sentence_R))
        prompt_R, limit_R = request.prompt_B[sentence_R], request.limit_B[sentence_R]
        text_BM = request.prompts_with_space(engine.capacity_for_texts(prompt_R, limit_R))
        tokens_RM = array_like(like_RV, (len(row_R), text_BM.shape[1]), np.int64, text_BM[sentence_R])
        length_R, total_R = (array_like(like_RV, len(row_R), *kind) for kind in ((np.int64, prompt_R), (np.float64, 0)))
        done_R, nobody_R = (array_like(like_RV, len(row_R), bool, False) for _ in range(2))
        every_R, begins_R, limits_R = (array_like(like_RV, len(row_R), np.int64, a) for a in (row_R, prompt_R, limit_R))
        eos_X = array_like(like_RV, len(options.eos_token_id), np.int64, options.eos_token_id)
        tables = make_tables(request.rows(tokens_RM, length_R, sentence_R, tables={}), options)
        return cls(
            tokens_RM, length_R, total_R, done_R, every_R, nobody_R, begins_R, limits_R, eos_X,
            request.draws(like_RV), tables, row_R, sentence_R,
        )  # fmt: skip

    def __len__(self) -> int:
        """Rows."""
        return len(self.row_R)

    def arrays(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of all that a step reads and changes."""
        yield from vars(self).items()
        yield from arrays_of_tables(self.tables)
        for part in (self.draws, self.past):
            if part is not None:
                yield from vars(part).items()

    def rows(self, request: Request, step: int | None) -> Rows:
        """What processors look at; of a text that is done, what came before its end."""
        return request.rows(self.tokens_RM, self.length_R - self.done_R, self.sentence_R, step, self.tables)

    def result_arrays(self) -> tuple[np.ndarray, ...]:
        """The generated texts, with their scores."""
        return self.tokens_RM, self.length_R, self.total_R

    def of_rows(self, stays_R: np.ndarray, request: Request, options: Options) -> Texts:
        """These rows alone."""
        other: dict[str, Any] = {
            "every_R": self.every_R[: len(stays_R)], "nobody_R": self.nobody_R[: len(stays_R)], "eos_X": self.eos_X,
            "draws": self.draws and self.draws.of_rows(stays_R), "tables": copies_without_rows(self.tables),
            "past": self.past and self.past.make_empty(len(stays_R), len(stays_R)),
        }  # fmt: skip
        texts = replace(
            self, **{name: array[stays_R] for name, array in vars(self).items() if name not in other}, **other
        )
        make_tables(texts.rows(request, 0), options)
        return texts

    def tokens_of_steps(self, first: int, end: int) -> np.ndarray:
        """ids_KR: the new tokens of these steps, for the host; behind the end of a text anything stands."""
        at_RK = self.begins_R[:, None] + np.arange(first, end, like=self.begins_R)
        return fetch(np.take_along_axis(self.tokens_RM, np.minimum(at_RK, self.tokens_RM.shape[1] - 1), axis=1)).T

    def extend(self, ops, token_R, gained_R, certain_R, trouble_R, model_trouble_R) -> np.ndarray:
        """Appends the chosen tokens to the texts that go on -> one number, flags: ALL_DONE, SOME_DONE, TROUBLE."""
        return ops.extend_sequences(
            self.tokens_RM, token_R, gained_R, certain_R, trouble_R, self.total_R, self.length_R, self.done_R,
            self.begins_R, self.limits_R, self.eos_X, model_trouble_R,
        )  # fmt: skip

    def stop(self, stopping: Stopping, request: Request, scores_RV: np.ndarray) -> int:
        """Ends texts by stop strings and the caller's functions -> flags that are new."""
        ids_RM, lengths_R, done_R = map(fetch, (self.tokens_RM, self.length_R, self.done_R))
        texts = [ids_RM[r, : lengths_R[r]] for r in range(len(ids_RM))]
        end_R = stopping.ends(texts, request.prompt_B[self.sentence_R], done_R, fetch(scores_RV)) & ~done_R
        if not end_R.any():
            return 0
        self.done_R |= np.asarray(end_R, like=self.done_R)
        return SOME_DONE | (ALL_DONE if fetch(self.done_R).all() else 0)


class Streams:
    """Gives the tokens of running texts to the caller's function."""

    def __init__(self, on_token: Callable[[int, int], None] | None, request: Request, options: Options, rows: int):
        self.on_token, self.request, self.options = on_token, request, options
        self.goes_on_R = np.ones(rows, bool)
        self.steps = 0  # whose tokens were told

    def call_on_token(self, texts: Texts, chosen: Chosen, steps: int) -> None:
        """Tells the tokens of all steps up to this number; `chosen` is the newest."""
        if self.on_token is None:
            return
        stopping, limit_R = self.request.stopping, self.request.limit_B[texts.sentence_R]
        ids_KR = (
            texts.tokens_of_steps(self.steps, steps) if texts.past else [fetch(chosen.token_R)][: steps - self.steps]
        )
        for ids_R in ids_KR:
            self.steps += 1
            for r in np.flatnonzero(self.goes_on_R):
                self.on_token(int(texts.row_R[r]), int(ids_R[r]))
            ends_R = np.isin(ids_R, self.options.eos_token_id) | (limit_R <= self.steps)
            self.goes_on_R &= ~(fetch(texts.done_R) if stopping else ends_R)

    def keep_only(self, stays_R: np.ndarray) -> None:
        """Keeps these rows alone."""
        self.goes_on_R = self.goes_on_R[stays_R]


def note_tokens(trace: Trace, step: int, texts: Texts, chosen: Chosen) -> None:
    """A step's choice, for a trace."""
    token_R, total_R, went_R, done_R = map(fetch, (chosen.token_R, texts.total_R, chosen.going_R, texts.done_R))
    trace.note_tokens(step, chosen.rows.on_host, token_R, total_R, went_R, done_R, chosen.notes)


def make_found(texts: Texts, request: Request, options: Options, steps: int) -> Found:
    """The new tokens and the score of each text, by sentence."""
    S = options.num_return_sequences
    (tokens_RM, length_R, total_R), prompt_R = map(fetch, texts.result_arrays()), np.repeat(request.prompt_B, S)
    scores_R = total_R / options.length_norm(length_R - prompt_R)
    new = [tokens_RM[r, prompt_R[r] : length_R[r]].copy() for r in range(len(prompt_R))]
    return Found([new[i : i + S] for i in range(0, len(new), S)], scores_R.reshape(-1, S), steps)
