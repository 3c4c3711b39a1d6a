"""Beam search with array state, every sentence on its own: one loop for all dialects, diverse groups and sampling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..device.arrays import array_like, fetch, repeat_each
from ..errors import OptionError
from ..ops import ALL_DONE, FINE, MOVED, PENALTY_TOO_STRONG, SOME_DONE, TROUBLE, BeamRules
from ..options.options import CountedStop, Options
from ..runtime.draws import Draws
from ..runtime.engine import Engine
from ..runtime.kept import Kept
from ..runtime.trace import Trace
from .candidates import Candidates, candidates_from_logits, demote_other_ends, find_candidates, may_use_hars
from .looks import Looks, Past
from .processors import (
    apply_processors,
    is_any_due,
    key_of_step,
    make_tables,
    prefix_length,
    process_and_log_softmax,
    why_in_parts,
)  # fmt: skip
from .result import Found, Request, clear_trouble, copy_results, raise_trouble, scale_logits, with_copied_results
from .rows import Rows
from .stopping import Stopping
from .tables import arrays_of_tables, copies_without_rows

ENDED = -1  # stands for the token of a candidate that ends its text without EOS: no vocabulary has it


def beam_search(
    engine: Engine, request: Request, options: Options, trace: Trace | None = None, kept: Kept | None = None
) -> Found:
    """The num_return_sequences best hypotheses of each sentence, under at most request.limit_B[b] new tokens.

    Usually there is one group of W beams. Hugging Face's diverse beam search runs G groups of W/G beams side by side:
    they choose in turn, and a token costs diversity_penalty for each time that a group before has chosen it.
    A sentence that is done keeps its rows until all are; under `drop_finished` it leaves the batch.
    The host reads one number per look (looks.py). Sentences that leave, a trace, and processors that are no ops read
    what they need.
    """
    ops, B = engine.ops, len(request.prompts)
    G = options.num_beam_groups if options.rules.groups == "apart" else 1
    W = options.num_beams // G

    # One row per sentence goes through the prompt; its scores then stand for all of its beams.
    logits_BV = engine.prefill(request.prompts)
    logits_RV = ops.gather_rows(logits_BV, np.repeat(np.arange(B, like=logits_BV), G * W))
    engine.expand(G * W, int(request.limit_B.max()))
    state = AllBeams.start(request, G, W, logits_RV, options, engine)
    all_groups, said, step = state.groups, repr(options), 0
    refused = why_in_parts(options, bool(trace or kept))
    if request.prefix_BP is not None:
        refused = refused or "prefix_tokens on the host"
    looks, flag = Looks.start(engine, request, options, refused), 0
    if looks.are_rare:
        state.past = Past.start(logits_RV, B * G, len(state))
    may_be_straight = may_use_hars(ops, options)
    decided = step_of_beams(ops, logits_RV, state, request, options, step, may_be_straight, trace, kept)
    while True:
        step += 1  # steps that have run
        rows = request.rows_at(state.sentence_B, step)
        key = refused or key_of_step(rows, options)
        if looks.are_due(state.past, rows, key):
            report = looks.look(step, state.past, decided.flag, decided.trouble_X, decided.model_trouble_R)
            flag = report.flag
            if flag & TROUBLE:
                refuse_step(report.trouble_X, report.model_trouble_R, state.sentence_B, report.step, options)
            if flag & ALL_DONE:
                break

            # Sentences that are done leave the batch, if the plan says so.
            if engine.drop_finished and flag & SOME_DONE:
                done_B = np.all(fetch(decided.done_X).reshape(G, -1), axis=0)
                stays_B = engine.sentences_that_stay(done_B)
                if len(stays_B) < len(done_B):
                    if all_groups is state.groups:
                        all_groups = [with_copied_results(beams) for beams in all_groups]
                    _copy_results_of_groups(state.groups, all_groups, done_B, state.sentence_B)
                    state = state.of_sentences(stays_B, request, options)
                    engine.keep_only(stays_B, G * W)

        def one_step(state: AllBeams, step: int = step, flag: int = flag) -> Decided:
            """One more token of each running text through the model, its cache taken over from its parent.

            A step that is captured always follows. Before any other the host has looked, and knows whether beams moved.
            """
            parent_R = state.parent_R if engine.captures_now or flag & MOVED else None
            logits_RV = engine.step(*running_texts(state.groups), parent_R)
            return step_of_beams(ops, logits_RV, state, request, options, step, may_be_straight, trace, kept)

        state, decided = engine.run_step(one_step, state, said, key)
    _copy_results_of_groups(state.groups, all_groups, np.arange(len(state.sentence_B)), state.sentence_B)
    best = best_finished(all_groups, request, options, looks.steps)
    if kept:
        kept.find_beams(best.tokens)
    return best


@dataclass
class Decided:
    """What a step made of all groups, and what the host may ask of it."""

    flag: np.ndarray  # one number: ALL_DONE, SOME_DONE, TROUBLE, MOVED
    done_X: np.ndarray
    trouble_X: np.ndarray  # what is wrong with a sentence, group by group
    model_trouble_R: np.ndarray | None  # what is wrong with the model's own scores, before processors


def step_of_beams(
    ops: Any, logits_RV: np.ndarray, state: AllBeams, request: Request, options: Options, step: int,
    may_be_straight: bool, trace: Trace | None, kept: Kept | None = None,
) -> Decided:  # fmt: skip
    """A step's choice: which continuations of each sentence's beams go on, and which texts are finished."""
    groups, sentence_B, diversity, stopping = state.groups, state.sentence_B, state.diversity, request.stopping
    B, G, W = len(sentence_B), len(groups), groups[0].running_BWM.shape[1]
    C = options.candidates // G
    if kept:
        _note_scores(kept, "logits", logits_RV, groups[0], sentence_B)
    logits_RV = scale_logits(ops, logits_RV, options)
    rows_of = [beams.rows(request, sentence_B, step, state.tables) for beams in groups]
    is_straight = may_be_straight and not is_any_due(rows_of[0], options)
    logprobs_RV, model_trouble_R = None, None  # then candidates that are NaN tell it
    if not is_straight and options.rules.softmax == "first":
        logprobs_RV, model_trouble_R = _logprobs_and_trouble(ops, logits_RV, groups, sentence_B, step, options)
    if diversity:
        diversity.clear_chosen()
    decided = []
    for g, beams in enumerate(groups):
        # 1. Score every continuation of every beam, and keep the best C of each sentence.
        notes: dict[str, np.ndarray] | None = {} if trace else None
        if is_straight:
            candidates = candidates_from_logits(ops, logits_RV, beams.running_score_BW, C)
            if kept and "scores" in kept.what:  # nothing comes between; no part of the step, so past those who count
                _note_scores(kept, "scores", ops.functions["log_softmax"](logits_RV)[0], beams, sentence_B)
        else:
            if logprobs_RV is None:  # the softmax comes last, in a dialect without groups
                scores_RV, model_trouble_R = process_and_log_softmax(ops, logits_RV, rows_of[g], options, notes)
                clear_trouble(model_trouble_R, repeat_each(beams.done_B, W))
            else:
                scores_RV = diversity.penalized_logprobs(logprobs_RV, g) if diversity else logprobs_RV
                scores_RV = apply_processors(ops, scores_RV, rows_of[g], options, notes)
            if kept:
                _note_scores(kept, "scores", scores_RV, beams, sentence_B)
            total_BWV = ops.add_beam_scores(scores_RV, beams.running_score_BW.reshape(-1)).reshape(B, W, -1)
            if options.rules.finished == "first" and request.prefix_BP is not None:
                prefix_BP = request.prefix_BP[sentence_B]
                beams.copy_where_the_prefix_ends(total_BWV, prefix_BP, step, options.eos_token_id)
            candidates = find_candidates(ops, total_BWV, C, step, state.draws, options)
            if options.rules.ends_behind_prefix == "best" and request.prefix_BP is not None:
                at_start_B = prefix_length(request.prefix_BP)[sentence_B] == step
                candidates = demote_other_ends(*candidates, at_start_B, options.eos_token_id)

        # 2. Of these, see which end and which run on.
        if kept:
            kept.note_candidates(*candidates, beams.running_score_BW, sentence_B)
        if G > 1 or trace:
            was_done_B = beams.done_B | (candidates[0][:, 0] == -np.inf)
        if trace:
            running_BWM, length_B = beams.running_BWM.copy(), beams.length_B.copy()
            before = replace(beams, running_BWM=running_BWM, length_B=length_B, done_B=was_done_B)
        ends_BC = None
        if stopping and stopping.is_last(step):
            beams.limit_B[...] = step + 1
        if stopping and stopping.looks_at_texts:
            ends_BC = beams.candidates_that_end(candidates, stopping)
        chosen = beams.advance(ops, candidates, ends_BC)
        if kept:
            kept.note_beams(chosen.parent_BW, chosen.token_BW, sentence_B)
        if trace:
            trace.note_candidates(step, g, before, candidates, chosen, sentence_B, options, notes)
        if diversity:  # a sentence that was done "chooses" the padding token: transformers 4.49 counts it
            diversity.count_chosen_tokens(np.where(was_done_B[:, None], options.padding, chosen.token_BW))
        decided.append(chosen)
    done_X, trouble_X, parent_BX = _join_decisions(groups, decided)
    flag = ops.step_flags(done_X, trouble_X, parent_BX, model_trouble_R)
    state.parent_R[...] = _parent_rows(parent_BX)
    if state.draws:
        state.draws.next()
    if state.past:
        state.past.note(flag, trouble_X, model_trouble_R)
    return Decided(flag, done_X, trouble_X, model_trouble_R)


@dataclass
class AllBeams:
    """The search's state: all groups of beams, what they share, and which row each row goes on from."""

    groups: list[Beams]
    diversity: Diversity | None
    draws: Draws | None
    parent_R: np.ndarray
    sentence_B: np.ndarray  # those that are in the batch
    tables: dict[Any, Any]  # what processors need at every step
    past: Past | None = None  # what steps told, where the host does not look at each

    @classmethod
    def start(cls, request: Request, G: int, W: int, like_RV: np.ndarray, options: Options, engine: Engine) -> AllBeams:
        """G groups of W beams that hold the prompts."""
        groups = [Beams.start(request, W, like_RV, options, engine) for _ in range(G)]
        diversity = Diversity.start(groups, like_RV, options) if G > 1 else None
        sentence_B, parent_R = np.arange(len(request.prompts)), np.arange(len(like_RV), like=like_RV)
        tables = make_tables(groups[0].rows(request, sentence_B, 0, {}), options)
        return cls(groups, diversity, request.draws(like_RV), parent_R, sentence_B, tables)

    def __len__(self) -> int:
        """Rows."""
        return len(self.parent_R)

    def arrays(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of all that a step reads and changes."""
        for part in (*self.groups, self.diversity, self.draws, self.past):
            if part is not None:
                yield from vars(part).items()
        yield from arrays_of_tables(self.tables)
        yield "parent_R", self.parent_R
        yield "sentence_B", self.sentence_B  # the host's, but a kept step's state has to know its own sentences, too

    def of_sentences(self, stays_B: np.ndarray, request: Request, options: Options) -> AllBeams:
        """These sentences alone; their rows keep their order."""
        X = len(self) // len(self.sentence_B)
        there_B = np.asarray(stays_B, like=self.parent_R)
        first_B = np.arange(len(stays_B), like=self.parent_R) * X
        within_BX = self.parent_R.reshape(-1, X)[there_B] - there_B[:, None] * X
        groups, sentence_B = [beams.of_sentences(stays_B) for beams in self.groups], self.sentence_B[stays_B]
        tables = make_tables(groups[0].rows(request, sentence_B, 0, copies_without_rows(self.tables)), options)
        return AllBeams(
            groups, self.diversity and self.diversity.for_sentences(len(stays_B)),
            self.draws and self.draws.of_rows(stays_B),
            (within_BX + first_B[:, None]).reshape(-1), sentence_B, tables,
            self.past and self.past.make_empty(len(stays_B) * len(self.groups), len(stays_B) * X),
        )  # fmt: skip


def _logprobs_and_trouble(
    ops, logits_RV: np.ndarray, groups: list[Beams], sentence_B: np.ndarray, step: int, options: Options
) -> tuple[np.ndarray, np.ndarray]:
    """(log-probabilities, what is wrong with a row of the model's): noted before processors, which may hide it."""
    logprobs_RV, trouble_R = ops.log_softmax(logits_RV)
    beams_per_sentence = len(logits_RV) // len(sentence_B)
    done_BG = np.stack([beams.done_B for beams in groups], axis=1)
    done_R = repeat_each(done_BG.reshape(-1), beams_per_sentence // len(groups))
    clear_trouble(trouble_R, done_R | options.remove_invalid_values)
    if options.logits_processor:  # the user's function is not to blame
        raise_trouble(trouble_R, np.repeat(sentence_B, beams_per_sentence), step)
    return logprobs_RV, trouble_R


def _note_scores(kept: Kept, kind: str, array_RV: np.ndarray, beams: Beams, sentence_B: np.ndarray) -> None:
    """A step's logits or scores, to where these sentences' rows are in the whole batch."""
    W = beams.running_BWM.shape[1]
    row_BW = sentence_B[:, None] * W + np.arange(W)
    kept.note_rows(kind, array_RV, row_BW.reshape(-1), np.repeat(fetch(beams.done_B), W))


def running_texts(groups: list[Beams]) -> tuple[np.ndarray, np.ndarray]:
    """(tokens_RM, length_R): the running texts of all groups, side by side in each sentence."""
    tokens_BXM = np.concatenate([b.running_BWM for b in groups], axis=1) if len(groups) > 1 else groups[0].running_BWM
    B, X, M = tokens_BXM.shape
    length_BG = np.stack([beams.length_B for beams in groups], axis=1)
    return tokens_BXM.reshape(B * X, M), repeat_each(length_BG.reshape(-1), X // len(groups))


def _parent_rows(parent_BX: np.ndarray) -> np.ndarray:
    """Which row each row continues, from the beam of its sentence that it continues."""
    B, X = parent_BX.shape
    return (parent_BX + X * np.arange(B, like=parent_BX)[:, None]).reshape(-1)


def _copy_results_of_groups(
    groups: list[Beams], all_groups: list[Beams], which_X: np.ndarray, sentence_B: np.ndarray
) -> None:
    """What these sentences have found goes into the arrays of all sentences; see `copy_results`."""
    for beams, every in zip(groups, all_groups, strict=True):
        copy_results(beams.result_arrays(), every.result_arrays(), which_X, sentence_B)


@dataclass
class Diversity:
    """Hugging Face's diverse beam search: a token costs the penalty for each time that a group before has chosen it."""

    penalty: float
    scores_BWV: np.ndarray  # a group's scores at its turn
    chosen_BV: np.ndarray  # how often the groups before it have chosen each token

    @classmethod
    def start(cls, groups: list[Beams], like_RV: np.ndarray, options: Options) -> Diversity:
        """The state at the beginning of a step, before any group has chosen."""
        (B, W, _), V = groups[0].running_BWM.shape, like_RV.shape[1]
        dtype = like_RV.dtype
        scores_BWV, chosen_BV = array_like(like_RV, (B, W, V), dtype, 0), array_like(like_RV, (B, V), dtype, 0)
        return cls(options.diversity_penalty, scores_BWV, chosen_BV)

    def clear_chosen(self) -> None:
        """A new step: no group has chosen."""
        self.chosen_BV[...] = 0

    def penalized_logprobs(self, logprobs_RV: np.ndarray, g: int) -> np.ndarray:
        """The log-probabilities of group g less its penalties, a row for each of its beams."""
        B, W, V = self.scores_BWV.shape
        np.multiply(self.chosen_BV[:, None], -self.scores_BWV.dtype.type(self.penalty), out=self.scores_BWV)
        self.scores_BWV += logprobs_RV.reshape(B, -1, V)[:, g * W : (g + 1) * W]
        return self.scores_BWV.reshape(B * W, V)

    def count_chosen_tokens(self, token_BX: np.ndarray) -> None:
        """Adds to each sentence's counts how often it has chosen each token."""
        sentence_B = np.arange(len(token_BX), like=token_BX)
        for x in range(token_BX.shape[1]):  # one by one: two beams may choose the same token
            self.chosen_BV[sentence_B, token_BX[:, x]] += 1

    def for_sentences(self, B: int) -> Diversity:
        """The state for this many sentences."""
        return Diversity(self.penalty, self.scores_BWV[:B].copy(), self.chosen_BV[:B].copy())


class Chosen(NamedTuple):
    """What a group made of a step's candidates."""

    kept_BW: np.ndarray  # which candidates run on
    parent_BW: np.ndarray  # whom they continue
    token_BW: np.ndarray  # by what
    finishes_BC: np.ndarray  # which candidates finished
    trouble_B: np.ndarray  # what is wrong with a sentence, if anything


@dataclass
class Beams:
    """One group: W hypotheses of each sentence that run, and the up to W that have finished, best first.

    Running scores are sums of log-probabilities, finished ones are divided by their length's norm. Texts lie in arrays
    of a fixed shape: a sentence that is done stays, and what it writes lands behind its text. All arrays are changed in
    place; prompt_B, limit_B, norm_X and eos_X stay as they are.
    """

    running_BWM: np.ndarray
    running_score_BW: np.ndarray
    length_B: np.ndarray  # of the running texts, prompt included
    finished_BWM: np.ndarray
    finished_score_BW: np.ndarray
    finished_length_BW: np.ndarray  # new tokens; 0 where no text stands
    done_B: np.ndarray
    ended_B: np.ndarray  # texts that have finished, and are among the finished ones or not; only where they are counted
    led_B: np.ndarray  # whether the best candidate of a step was one of these
    prompt_B: np.ndarray
    limit_B: np.ndarray
    norm_X: np.ndarray  # what scores are divided by, by the number of new tokens
    eos_X: np.ndarray
    rules: BeamRules
    counted_stop: CountedStop | None
    shares_places: bool  # whether a text that has finished keeps a beam from running

    @classmethod
    def start(cls, request: Request, W: int, like_RV: np.ndarray, options: Options, engine: Engine) -> Beams:
        """All beams hold the prompt; all but the first (of each interleaved group) are out of play.

        like_RV: gives dtype and device.
        """
        B, prompt_B, limit_B, dtype = len(request.prompts), request.prompt_B, request.limit_B, like_RV.dtype
        eos = options.eos_token_id
        M = engine.capacity_for_texts(prompt_B, limit_B) + 1  # the last column is spare
        running_BWM = array_like(like_RV, (B, W, M), np.int64, request.prompts_with_space(M)[:, None])
        out_of_play_BW = array_like(like_RV, (B, W), dtype, options.rules.out_of_play)
        running_score_BW = out_of_play_BW.copy()
        running_score_BW[:, : options.num_beam_groups if options.rules.groups == "interleaved" else 1] = 0.0
        eos = (*eos, ENDED) if request.stopping else eos
        norms = [1.0, *(options.length_norm(new) for new in range(1, engine.capacity(int(limit_B.max())) + 1))]
        return cls(
            running_BWM, running_score_BW, array_like(like_RV, B, np.int64, prompt_B), running_BWM.copy(),
            out_of_play_BW,
            array_like(like_RV, (B, W), np.int64, 0), array_like(like_RV, B, bool, False),
            array_like(like_RV, B, np.int64, 0), array_like(like_RV, B, bool, False),
            array_like(like_RV, B, np.int64, prompt_B), array_like(like_RV, B, np.int64, limit_B),
            array_like(like_RV, len(norms), dtype, norms), array_like(like_RV, len(eos), np.int64, eos),
            options.beam_rules, options.counted_stop, options.rules.stop == "shared",
        )  # fmt: skip

    def rows(self, request: Request, sentence_B: np.ndarray, step: int, tables: dict[Any, Any]) -> Rows:
        """The running texts, of these sentences of the request."""
        B, W, M = self.running_BWM.shape
        return request.rows(
            self.running_BWM.reshape(B * W, M),
            repeat_each(self.length_B, W),
            np.repeat(sentence_B, W),
            step,
            tables,
        )

    def result_arrays(self) -> tuple[np.ndarray, ...]:
        """The finished texts, with their scores."""
        return self.finished_BWM, self.finished_score_BW, self.finished_length_BW

    def of_sentences(self, stays_B: np.ndarray) -> Beams:
        """These sentences alone."""
        arrays = {name: array[stays_B] for name, array in vars(self).items() if name.endswith(("_B", "_BW", "_BWM"))}
        return replace(self, **arrays)

    def candidates_that_end(self, candidates: Candidates, stopping: Stopping) -> np.ndarray:
        """ends_BC: the candidates that end their texts by a stop string or a caller's function."""
        _, parent_BC, token_BC = map(fetch, candidates)
        running_BWM, length_B = fetch(self.running_BWM), fetch(self.length_B)
        B, C = token_BC.shape
        texts = [
            np.append(running_BWM[b, parent_BC[b, c], : length_B[b]], token_BC[b, c])
            for b in range(B)
            for c in range(C)
        ]
        prompt_X, done_X = (np.repeat(fetch(each_B), C) for each_B in (self.prompt_B, self.done_B))
        return stopping.ends(texts, prompt_X, done_X, None).reshape(B, C)

    def advance(self, ops, candidates: Candidates, ends_BC: np.ndarray | None = None) -> Chosen:
        """Takes up a step's candidates. ends_BC: those that end their texts though their token is no EOS."""
        score_BC, parent_BC, token_BC = candidates
        known_BC = token_BC if ends_BC is None else np.where(np.asarray(ends_BC, like=token_BC), ENDED, token_BC)
        kept_BW, parent_BW, next_BW, finishes_BC, slot_BW, at_B, trouble_B = ops.update_beams(
            score_BC, parent_BC, known_BC, self.running_score_BW, self.finished_score_BW, self.finished_length_BW,
            self.done_B, self.length_B, self.prompt_B, self.limit_B, self.norm_X, self.eos_X, self.rules,
        )  # fmt: skip
        chosen = Chosen(kept_BW, parent_BW, next_BW, finishes_BC, trouble_B)
        if ends_BC is not None:  # too few go on: an ended one fills the row, with a score out of play and any token
            chosen.token_BW[chosen.token_BW == ENDED] = 0
        texts = self.finished_BWM, self.running_BWM  # those that finish go first, while the others are in their places
        self.finished_BWM = ops.store_finished(*texts, slot_BW, parent_BC, token_BC, at_B)
        self.running_BWM = ops.update_sequences(self.running_BWM, chosen.parent_BW, chosen.token_BW, at_B)
        if self.counted_stop:
            self.stop_by_count(finishes_BC & (score_BC > -np.inf), at_B, self.counted_stop)
        if self.shares_places:
            chosen.kept_BW[...] = np.where(self.share_places_by_score(at_B), chosen.kept_BW, -1)
        return chosen

    def share_places_by_score(self, at_B: np.ndarray) -> np.ndarray:
        """LightSeq: W places for both, texts that have finished and those that run, by their scores -> goes_on_BW.

        Both are in order, so that a text's rank is its own place, and how many of the others go before it.
        """
        W = self.running_score_BW.shape[1]
        running_BW = self.running_score_BW / self.norm_X[at_B + 1 - self.prompt_B][:, None]
        ahead_BWW = self.finished_score_BW[:, None, :] >= running_BW[:, :, None]  # [b, running, finished]
        place_W = np.arange(W, like=at_B)
        goes_on_BW = (place_W + ahead_BWW.sum(axis=2) < W) & (running_BW > -np.inf)
        stays_BW = (place_W + (~ahead_BWW).sum(axis=1) < W) | self.done_B[:, None]
        self.running_score_BW[...] = np.where(goes_on_BW, self.running_score_BW, -np.inf)
        self.finished_score_BW[...] = np.where(stays_BW, self.finished_score_BW, -np.inf)
        self.finished_length_BW[...] = np.where(stays_BW, self.finished_length_BW, 0)
        self._stop_where(~goes_on_BW.any(axis=1), at_B)
        return goes_on_BW

    def _stop_where(self, is_over_B: np.ndarray, at_B: np.ndarray) -> None:
        """Marks these sentences as done. at_B: lengths before this step, which done sentences keep."""
        self.done_B |= is_over_B
        self.length_B[...] = np.where(self.done_B, at_B, self.length_B)

    def stop_by_count(self, finishes_BC: np.ndarray, at_B: np.ndarray, stop: CountedStop) -> None:
        """CTranslate2: a sentence is done when enough texts have finished, however good those that run may become."""
        self.ended_B += finishes_BC.sum(axis=1)
        self.led_B |= finishes_BC[:, 0]
        is_enough_B = self.ended_B >= stop.texts
        self._stop_where(is_enough_B & self.led_B if stop.behind_best else is_enough_B, at_B)

    def copy_where_the_prefix_ends(self, total_BWV, prefix_BP, step: int, eos: tuple[int, ...]) -> None:
        """fairseq: a prefix that ends in EOS finishes its sentence with W copies of the first beam."""
        if step < prefix_BP.shape[1]:
            for b in np.flatnonzero(np.isin(prefix_BP[:, step], eos)):
                self.running_BWM[b] = self.running_BWM[b, 0]
                total_BWV[b] = total_BWV[b, 0]


def _join_decisions(groups: list[Beams], decided: list[Chosen]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(done_X, trouble_X, parent_BX): what all groups have decided; a beam is counted among those of all groups."""
    if len(groups) == 1:
        return groups[0].done_B, decided[0].trouble_B, decided[0].parent_BW
    W = decided[0].parent_BW.shape[1]
    parents = [chosen.parent_BW + g * W for g, chosen in enumerate(decided)]
    done_X = np.concatenate([beams.done_B for beams in groups])
    return done_X, np.concatenate([chosen.trouble_B for chosen in decided]), np.concatenate(parents, axis=1)


def refuse_step(
    trouble_X: np.ndarray, model_trouble_R: np.ndarray | None, sentence_B: np.ndarray, step: int, options: Options
) -> None:
    """Raises OptionError or NumericalError: what the ops of this step have found, the model's scores first."""
    if model_trouble_R is not None:
        raise_trouble(model_trouble_R, np.repeat(sentence_B, len(model_trouble_R) // len(sentence_B)), step)
    trouble_X = fetch(trouble_X)
    if trouble_X[np.argmax(trouble_X != FINE)] == PENALTY_TOO_STRONG:
        raise OptionError(
            f"length_penalty {options.length_penalty} takes scores at {step + 1} tokens below "
            f"{options.rules.out_of_play:g}, the mark of what is out of play: use one nearer to 0"
        )
    raise_trouble(trouble_X, np.tile(sentence_B, len(trouble_X) // len(sentence_B)), step)


def best_finished(groups: list[Beams], request: Request, options: Options, steps: int) -> Found:
    """The best finished texts of all groups. A place that no text filled, or only one out of play, stays empty."""
    text_BXM, score_BX, length_BX = (
        np.concatenate([fetch(part) for part in parts], axis=1)
        for parts in zip(*(beams.result_arrays() for beams in groups), strict=True)
    )

    sum_BX = score_BX * options.length_norm(np.maximum(length_BX, 1))
    filled_BX = (length_BX > 0) & (sum_BX > options.rules.out_of_play / 2)
    score_BX = np.where(filled_BX, score_BX, -np.inf)
    length_BX = np.where(filled_BX, length_BX, 0)
    order_BX = np.argsort(-score_BX, axis=1, kind="stable")[:, : options.num_return_sequences]
    tokens = [
        [text_BXM[b, x, len(prompt) :][: length_BX[b, x]].copy() for x in order_BX[b]]
        for b, prompt in enumerate(request.prompts)
    ]
    return Found(tokens, np.take_along_axis(score_BX, order_BX, axis=1), steps)
