"""Beam search with array state, every sentence on its own: one loop for all dialects, diverse groups and sampling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import OptionError
from .candidates import Candidates, count_tokens, find_candidates, may_go_straight, straight_from_logits
from .options import Options
from .processors import Rows, any_due, process
from .result import Found, Request, check_choice, check_scores

if TYPE_CHECKING:
    from ..runtime.engine import Engine
    from .trace import Trace


def beam_search(engine: Engine, request: Request, options: Options, trace: Trace | None = None) -> Found:
    """The num_return_sequences best hypotheses of each sentence, under at most request.limit_B[b] new tokens.

    Usually there is one group of W beams. Hugging Face's diverse beam search runs G groups of W/G beams side by side:
    they choose in turn, and a token costs diversity_penalty for each time that a group before has chosen it.
    """
    ops, rules, B = engine.ops, options.rules, len(request.prompts)
    G = options.num_beam_groups if rules.groups == "apart" else 1
    W = options.num_beams // G
    sentence_R = np.repeat(np.arange(B), W)
    may_be_straight = may_go_straight(ops, options)

    # One row per sentence goes through the prompt; its scores then stand for all of its beams.
    logits_RV = ops.take(engine.prefill(request.prompts), np.repeat(np.arange(B), G * W))
    engine.expand(G * W, int(request.limit_B.max()))
    groups = [Beams.start(request, W, logits_RV.dtype, options) for _ in range(G)]
    V, C, dtype = logits_RV.shape[1], options.candidates // G, logits_RV.dtype
    if G > 1:  # a group's scores at its turn, and how often the groups before it have chosen each token
        group_BWV, chosen_BV = np.empty((B, W, V), dtype), np.zeros((B, V), dtype)
    step = 0
    while True:
        if rules.temperature_in_softmax:
            logits_RV /= logits_RV.dtype.type(options.temperature)
        is_straight = may_be_straight and not groups[0].any_due(request, sentence_R, options)
        if not is_straight:
            logprobs_RV = ops.log_softmax(logits_RV)
            check_scores(logprobs_RV, np.repeat(np.arange(B), G * W), step)
            scores_BXV = logprobs_RV.reshape(B, G * W, V)
        if G > 1:
            chosen_BV[...] = 0
        parents = []
        for g, beams in enumerate(groups):
            notes = {} if trace else None
            if is_straight:
                candidates = straight_from_logits(ops, logits_RV, beams.running_score_BW, C)
                check_scores(candidates[0], np.arange(B), step)
            else:
                # 1. Score every continuation of every beam, in the place of the log-probabilities.
                scores_BWV = scores_BXV
                if G > 1:
                    scores_BWV = np.multiply(chosen_BV[:, None], -dtype.type(options.diversity_penalty), out=group_BWV)
                    scores_BWV += scores_BXV[:, g * W : (g + 1) * W]
                rows = beams.rows(request, sentence_R)
                scores_RV = process(ops, scores_BWV.reshape(B * W, V), rows, options, notes)
                total_BWV = scores_RV.reshape(B, W, V)
                total_BWV += beams.running_score_BW[:, :, None]
                if rules.finished == "first" and request.prefix_BP is not None:
                    beams.copy_where_the_prefix_ends(total_BWV, request.prefix_BP, step, options.eos_token_id)
                candidates = find_candidates(ops, total_BWV, C, step, request.keys_R2, options)

            # 2. Of the best C of each sentence, see which end and which run on.
            nothing_left_B = np.isneginf(candidates[0][:, 0])
            beams.done_B = beams.done_B | (
                nothing_left_B & beams.is_finished_BW.any(axis=1)
            )  # what has finished stands
            check_choice(candidates[0][:, 0], beams.done_B, np.arange(B), step)
            before = replace(beams, running_BWM=beams.running_BWM.copy()) if trace else None
            chosen = beams.advance(ops, candidates, step + 1, request.limit_B, options)
            if trace:
                trace.note_candidates(step, g, before, candidates, chosen, request, options, notes)
            if G > 1:
                count_tokens(chosen_BV, chosen.token_BW)
            parents.append(chosen.parent_BW + g * W)
        step += 1
        if all(beams.done_B.all() for beams in groups):
            break

        # 3. One more token of each running text through the model, its memory taken over from its parent.
        tokens_BXM = np.concatenate([b.running_BWM for b in groups], axis=1) if G > 1 else groups[0].running_BWM
        tokens_RM = tokens_BXM.reshape(B * G * W, -1)
        length_R = np.repeat(np.stack([beams.length_B for beams in groups], axis=1).reshape(-1), W)
        first_row_B1 = G * W * np.arange(B)[:, None]
        parent_R = (np.concatenate(parents, axis=1) + first_row_B1).reshape(-1)
        logits_RV = engine.step(tokens_RM, length_R, parent_R)
    return _best_of_all(groups, request, options, step)


class Chosen(NamedTuple):
    """What a group made of a step's candidates."""

    parent_BW: np.ndarray  # of the beams that run on
    token_BW: np.ndarray  # theirs, the newest
    kept_BW: np.ndarray  # which candidates they were
    finished_BC: np.ndarray  # which candidates finished


@dataclass
class Beams:
    """One group: W hypotheses of each sentence that run, and the up to W that have finished, best first.

    Running scores are sums of log-probabilities, finished ones are divided by their length's norm. Texts lie in arrays
    of a fixed shape: a sentence that is done stays, and what it writes lands behind its text. Running texts change
    places in their array; for finished ones there are two: from one of them they go into their new order in the other.
    """

    running_BWM: np.ndarray
    running_score_BW: np.ndarray
    length_B: np.ndarray  # of the running texts, prompt included
    finished_BWM: np.ndarray
    finished_before_BWM: np.ndarray
    finished_score_BW: np.ndarray
    finished_length_BW: np.ndarray  # new tokens
    is_finished_BW: np.ndarray
    done_B: np.ndarray

    @classmethod
    def start(cls, request: Request, W: int, dtype, options: Options) -> Beams:
        """All beams hold the prompt; all but the first (of each interleaved group) are out of play."""
        B, prompt_B = len(request.prompts), request.prompt_B
        running_BWM = np.zeros((B, W, (prompt_B + request.limit_B).max() + 1), np.int64)  # the last column is spare
        for b, prompt in enumerate(request.prompts):
            running_BWM[b, :, : len(prompt)] = prompt
        out_of_play_BW = np.full((B, W), options.rules.out_of_play, dtype)
        running_score_BW = out_of_play_BW.copy()
        running_score_BW[:, : options.num_beam_groups if options.rules.groups == "interleaved" else 1] = 0.0
        return cls(
            running_BWM, running_score_BW, prompt_B.copy(), running_BWM.copy(), running_BWM.copy(),
            out_of_play_BW, np.zeros((B, W), np.int64), np.zeros((B, W), bool), np.zeros(B, bool),
        )  # fmt: skip

    def rows(self, request: Request, sentence_R: np.ndarray) -> Rows:
        """The running texts."""
        return request.rows(self.running_BWM.reshape(len(sentence_R), -1), self.length_B[sentence_R], sentence_R)

    def any_due(self, request: Request, sentence_R: np.ndarray, options: Options) -> bool:
        """Whether a processor has anything to do with texts that go on."""
        return any_due(self.rows(request, sentence_R), ~self.done_B[sentence_R], options)

    def advance(self, ops, candidates: Candidates, new: int, limit_B, options: Options) -> Chosen:
        """Takes up candidates that hold `new` new tokens.

        A sentence that was done before "chooses" the padding token: diverse groups of transformers 4.49 count it.
        """
        score_BC, parent_BC, token_BC = candidates
        (B, C), W, rules = score_BC.shape, self.running_score_BW.shape[1], options.rules
        every_B1 = np.arange(B)[:, None]
        at_limit_B = new >= limit_B
        was_done_B = self.done_B
        ends_BC = np.isin(token_BC, options.eos_token_id)

        # Those that end among the W best of all finish, as long as the texts that they continue are in their places.
        finish_BC = ends_BC | at_limit_B[:, None] if rules.at_limit == "candidates" else ends_BC
        best_end_BC = finish_BC & (np.arange(C) < W)
        finished_BC = self._finish(self.running_BWM, parent_BC, token_BC, score_BC, best_end_BC, new, options)

        # The W best that do not end run on; where groups are interleaved, the first W, whose order says the group.
        going_score_BC = np.where(ends_BC, score_BC + score_BC.dtype.type(rules.out_of_play), score_BC)
        order_BC = ends_BC if rules.groups == "interleaved" else -going_score_BC
        keep_BW = np.argsort(order_BC, axis=1, kind="stable")[:, :W]
        parent_BW, token_BW = parent_BC[every_B1, keep_BW], token_BC[every_B1, keep_BW]
        self.running_BWM = ops.refresh_texts(self.running_BWM, parent_BW, token_BW, self.length_B)
        self.running_score_BW = going_score_BC[every_B1, keep_BW]

        # A sentence is done when nothing that runs can better what has finished, or at its limit.
        hope_B = score_BC[:, 0] if rules.stop == "candidate" else self.running_score_BW[:, 0]
        self.done_B = self.done_B | self.is_settled(hope_B, new, limit_B, options)
        if rules.at_limit == "running":
            itself_BW, ends_BW = (np.broadcast_to(a, (B, W)) for a in (np.arange(W), at_limit_B[:, None]))
            self._finish(self.running_BWM, itself_BW, token_BW, self.running_score_BW, ends_BW, new, options)
        self.done_B = self.done_B | at_limit_B

        self.length_B = self.length_B + ~self.done_B  # who is done feeds the token before its last, again and again
        if was_done_B.any() and options.num_beam_groups > 1:
            token_BW[was_done_B] = options.padding
        return Chosen(parent_BW, token_BW, keep_BW, finished_BC)

    def _finish(self, text_BWM, parent_BX, token_BX, score_BX, ends_BX, new: int, options: Options) -> np.ndarray:
        """Texts of sentences that go on, where ends_BX says so, join the finished ones; the W best stay.

        Text x of sentence b is text_BWM[b, parent_BX[b, x]] up to its newest token, and that is token_BX[b, x].
        fairseq takes only possible texts, the first that come, until there are W. Returns which were let in.
        """
        every_B1 = np.arange(len(score_BX))[:, None]
        W = self.is_finished_BW.shape[1]
        enters_BX = ends_BX & ~self.done_B[:, None]
        if options.rules.finished == "first":
            enters_BX &= np.isfinite(score_BX)
            enters_BX &= enters_BX.cumsum(axis=1) <= W - self.is_finished_BW.sum(axis=1, keepdims=True)
        normed_BX = score_BX / options.length_norm(new)
        entering_BX = np.where(enters_BX, normed_BX, options.rules.out_of_play).astype(score_BX.dtype)

        both_score = np.concatenate([self.finished_score_BW, entering_BX], axis=1)
        best_BW = np.argsort(-both_score, axis=1, kind="stable")[:, :W]
        self.finished_score_BW = both_score[every_B1, best_BW]
        if enters_BX.any():
            self.finished_before_BWM, self.finished_BWM = self.finished_BWM, self.finished_before_BWM
            _pick_texts(self.finished_before_BWM, np.minimum(best_BW, W - 1), self.finished_BWM)
            for b, w in np.argwhere(best_BW >= W):
                x = best_BW[b, w] - W
                self.finished_BWM[b, w] = text_BWM[b, parent_BX[b, x]]
                self.finished_BWM[b, w, self.length_B[b]] = token_BX[b, x]
        new_BX = np.full(score_BX.shape, new)
        self.finished_length_BW = np.concatenate([self.finished_length_BW, new_BX], axis=1)[every_B1, best_BW]
        self.is_finished_BW = np.concatenate([self.is_finished_BW, enters_BX], axis=1)[every_B1, best_BW]
        return enters_BX

    def is_settled(self, hope_B: np.ndarray, new: int, limit_B: np.ndarray, options: Options) -> np.ndarray:
        """Whether W texts have finished and, by the dialect's rule, none that still runs may replace one of them.

        fairseq's: W have finished.
        Hugging Face's: none can if hope_B, the best sum of log-probabilities, does not beat the worst finished score
        at the present length; with early_stopping="never" and a positive penalty, at the greatest allowed.
        """
        full_B, rules = self.is_finished_BW.all(axis=1), options.rules
        if rules.stop == "full":
            return full_B
        hopeful_B = limit_B if options.early_stopping == "never" and options.length_penalty > 0 else new
        hopeful_score_B = hope_B / np.asarray(options.length_norm(hopeful_B), hope_B.dtype)
        if ((hope_B > rules.out_of_play / 2) & (hopeful_score_B <= rules.out_of_play) & ~self.done_B).any():
            raise OptionError(
                f"length_penalty {options.length_penalty} takes scores at {new} tokens below {rules.out_of_play:g}, "
                "the mark of what is out of play: use one nearer to 0"
            )
        worst_B = np.where(full_B, self.finished_score_BW.min(axis=1), rules.out_of_play)
        beaten_B = hopeful_score_B <= worst_B
        if rules.stop == "candidate":
            beaten_B &= full_B
        return beaten_B | (full_B & (options.early_stopping is True))

    def copy_where_the_prefix_ends(self, total_BWV, prefix_BP, step: int, eos: tuple[int, ...]) -> None:
        """fairseq: a prefix that ends in EOS finishes its sentence with W copies of the first beam."""
        if step < prefix_BP.shape[1]:
            for b in np.flatnonzero(np.isin(prefix_BP[:, step], eos)):
                self.running_BWM[b] = self.running_BWM[b, 0]
                total_BWV[b] = total_BWV[b, 0]


def _pick_texts(text_BWM: np.ndarray, pick_BW: np.ndarray, out_BWM: np.ndarray) -> None:
    """out[b, w] = text[b, pick[b, w]]."""
    B, W, M = text_BWM.shape
    pick_R = (pick_BW + W * np.arange(B)[:, None]).reshape(-1)
    np.take(text_BWM.reshape(B * W, M), pick_R, axis=0, out=out_BWM.reshape(B * W, M), mode="clip")


def _best_of_all(groups: list[Beams], request: Request, options: Options, steps: int) -> Found:
    """The best finished texts of all groups. A place that no text filled, or only one out of play, stays empty."""
    score_BX = np.concatenate([beams.finished_score_BW for beams in groups], axis=1)
    length_BX = np.concatenate([beams.finished_length_BW for beams in groups], axis=1)
    is_finished_BX = np.concatenate([beams.is_finished_BW for beams in groups], axis=1)
    text_BXM = np.concatenate([beams.finished_BWM for beams in groups], axis=1)

    sum_BX = score_BX * options.length_norm(np.maximum(length_BX, 1))
    filled_BX = is_finished_BX & (sum_BX > options.rules.out_of_play / 2)
    score_BX = np.where(filled_BX, score_BX, -np.inf)
    length_BX = np.where(filled_BX, length_BX, 0)
    order_BX = np.argsort(-score_BX, axis=1, kind="stable")[:, : options.num_return_sequences]
    tokens = [
        [text_BXM[b, x, len(prompt) :][: length_BX[b, x]].copy() for x in order_BX[b]]
        for b, prompt in enumerate(request.prompts)
    ]
    return Found(tokens, np.take_along_axis(score_BX, order_BX, axis=1), steps)
