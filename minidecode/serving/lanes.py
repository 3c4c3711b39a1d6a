"""The searches of a running batch: requests with the same options share one search state, a lane.

A lane is the state of `search/greedy.py` or `search/beam.py` with texts of several requests in it, each at a step of
its own. The functions that choose tokens are those of the searches. `merge_rows` joins rows of several lanes, and drops
rows of texts that leave.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MinidecodeError
from ..ops import MOVED, TROUBLE
from ..options.options import MAXIMA, Options
from ..runtime.draws import Draws
from ..runtime.output import logprobs_of_step
from ..search.beam import AllBeams, Beams, Decided, best_finished, refuse_step, running_texts, step_of_beams
from ..search.candidates import option_against_hars
from ..search.greedy import Texts, next_tokens
from ..search.processors import make_tables
from ..search.result import Request, raise_trouble

if TYPE_CHECKING:
    from .jobs import Job

# Options that belong to one call: functions of a caller's, clocks, and what is counted from its first step.
OF_ONE_REQUEST = ("stopping_criteria", "logits_processor", "prefix_allowed_tokens_fn", "max_time", "regex",
                  "json_schema", "sibling_penalty", "diversity_penalty")  # fmt: skip


def lane_key(options: Options) -> tuple[Any, ...] | None:
    """What requests have in common that may share a lane; None for one that has a lane of its own."""
    if any(getattr(options, name) for name in OF_ONE_REQUEST):
        return None
    return tuple((f.name, getattr(options, f.name)) for f in dataclasses.fields(options) if f.name not in MAXIMA)


@dataclass
class Room:
    """What searches ask of an engine when they begin: here all texts have the same room."""

    positions: int

    def capacity(self, positions: int) -> int:
        return self.positions

    def capacity_for_texts(self, prompt_X: np.ndarray, limit_X: np.ndarray) -> int:
        return self.positions


@dataclass
class TextLane:
    """Texts of greedy search or sampling. Text r is the number_R[r]-th of jobs[r], and lies in row row_R[r]."""

    options: Options
    request: Request
    texts: Texts
    jobs: list[Job]
    number_R: np.ndarray
    row_R: np.ndarray

    @classmethod
    def start(cls, job: Job, logits_1V: np.ndarray, positions: int) -> TextLane:
        """The texts of one request behind its prompt, without a token yet; logits_1V: after the prompt."""
        S = job.options.num_return_sequences
        like_RV = np.repeat(logits_1V, S, axis=0)
        texts = Texts.start(job.request, np.zeros(S, np.int64), like_RV, job.options, Room(positions))
        return cls(job.options, job.request, texts, [job] * S, np.arange(S), np.zeros(S, np.int64))

    def __len__(self) -> int:
        """Rows."""
        return len(self.jobs)

    @classmethod
    def merge_rows(cls, parts: Sequence[tuple[TextLane, np.ndarray]]) -> TextLane:
        """One lane of these rows of several."""
        lanes = [(lane, stays_R) for lane, stays_R in parts if len(stays_R)] or [parts[0]]
        request, sentence_R = _join_requests([(lane.request, lane.texts.sentence_R[stays]) for lane, stays in lanes])
        rows = {
            name: np.concatenate([getattr(lane.texts, name)[stays] for lane, stays in lanes])
            for name in ("tokens_RM", "length_R", "total_R", "done_R", "nobody_R", "begins_R", "limits_R")
        }
        every_R, first = np.arange(len(sentence_R)), lanes[0][0]
        draws = _joined_draws([(lane.texts.draws, stays) for lane, stays in lanes])
        texts = Texts(
            **rows, every_R=every_R, eos_X=first.texts.eos_X, draws=draws, tables={}, row_R=every_R,
            sentence_R=sentence_R,
        )  # fmt: skip
        make_tables(texts.rows(request, None), first.options)
        return cls(
            first.options, request, texts, [lane.jobs[r] for lane, stays in lanes for r in stays],
            *(np.concatenate([getattr(lane, n)[stays] for lane, stays in lanes]) for n in ("number_R", "row_R")),
        )  # fmt: skip

    def last_tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """(token_R, length_R): what a step reads of each text, and how long it is with it."""
        length_R = self.texts.length_R
        return self.texts.tokens_RM[np.arange(len(length_R)), length_R - 1], length_R

    def moves(self) -> Iterator[tuple[int, np.ndarray]]:
        """Texts never change places."""
        return iter(())

    def forget_moves(self) -> None:
        """Does nothing: these rows never move."""

    def written_texts(self) -> list[np.ndarray]:
        """The text of each row, its prompt included."""
        return [ids[:length].copy() for ids, length in zip(self.texts.tokens_RM, self.texts.length_R, strict=True)]

    def advance_rows(self, ops: Any, logits_RV: np.ndarray) -> np.ndarray:
        """Each text gets its next token -> stays_R, the rows that go on. It tells jobs of tokens, ends and errors."""
        asked = {r: job.logprobs for r, job in enumerate(self.jobs) if job.logprobs is not None}
        noted = {r: logprobs_of_step(logits_RV[r], best) for r, best in asked.items()}
        new_R = self.texts.length_R - self.texts.begins_R
        step = int(new_R[0]) if self.jobs[0].lane_key is None else None  # in a lane of several, the lengths say it
        chosen = next_tokens(ops, logits_RV, self.texts, self.request, self.options, step, None)
        if int(chosen.flag[0]) & TROUBLE:
            for trouble_R in (chosen.model_trouble_R, chosen.trouble_R):
                _fail_jobs(self.jobs, trouble_R, new_R)
        if self.request.stopping and self.request.stopping.looks_at_texts:
            self.texts.stop(self.request.stopping, self.request, chosen.scores_RV)
        for r, job in enumerate(self.jobs):
            if job.runs:
                try:
                    job.add_token(int(self.number_R[r]), int(chosen.token_R[r]), noted.get(r))
                except Exception as error:  # of its on_token: the other requests of the lane go on
                    job.fail(error)
        for r in np.flatnonzero(self.texts.done_R):
            begin, end = self.texts.begins_R[r], self.texts.length_R[r]
            score = self.texts.total_R[r] / self.options.length_norm(end - begin)
            self.jobs[r].end_text(int(self.number_R[r]), self.texts.tokens_RM[r, begin:end].copy(), float(score))
        return np.flatnonzero([not done and job.runs for done, job in zip(self.texts.done_R, self.jobs, strict=True)])


@dataclass
class BeamLane:
    """Beams of several requests, X rows each: those of jobs[b] begin in row first_B[b]."""

    options: Options
    request: Request
    state: AllBeams
    jobs_B: list[Job]
    row_R: np.ndarray
    moved: bool = False  # whether any beam goes on from another row than its own

    @classmethod
    def start(cls, job: Job, logits_1V: np.ndarray, positions: int) -> BeamLane:
        """All beams of one request hold its prompt."""
        o = job.options
        G = o.num_beam_groups if o.rules.groups == "apart" else 1
        logits_RV = np.repeat(logits_1V, o.num_beams, axis=0)
        state = AllBeams.start(job.request, G, o.num_beams // G, logits_RV, o, Room(positions))
        return cls(o, job.request, state, [job], np.zeros(o.num_beams, np.int64))

    def __len__(self) -> int:
        """Rows."""
        return len(self.row_R)

    @property
    def jobs(self) -> list[Job]:
        """The job of each row."""
        return [job for job in self.jobs_B for _ in range(self.options.num_beams)]

    @classmethod
    def merge_rows(cls, parts: Sequence[tuple[BeamLane, np.ndarray]]) -> BeamLane:
        """One lane of these rows of several: of a request all of its rows, or none."""
        X = parts[0][0].options.num_beams
        lanes = [(lane, stays_R[::X] // X) for lane, stays_R in parts if len(stays_R)] or [(parts[0][0], np.arange(0))]
        first, states = lanes[0][0], [(lane.state, stays) for lane, stays in lanes]
        request, sentence_B = _join_requests([(lane.request, lane.state.sentence_B[stays]) for lane, stays in lanes])
        groups = [_joined_beams([(s.groups[g], stays) for s, stays in states]) for g in range(len(first.state.groups))]
        draws = _joined_draws([(s.draws, stays) for s, stays in states])
        diversity = first.state.diversity and first.state.diversity.for_sentences(len(sentence_B))
        within_BX = np.concatenate([(s.parent_R.reshape(-1, X) % X)[stays] for s, stays in states])
        parent_R = (within_BX + X * np.arange(len(sentence_B))[:, None]).reshape(-1)
        tables = make_tables(groups[0].rows(request, sentence_B, None, {}), first.options)
        state = AllBeams(groups, diversity, draws, parent_R, sentence_B, tables)
        rows = np.concatenate([lane.row_R.reshape(-1, X)[stays].reshape(-1) for lane, stays in lanes])
        jobs_B = [lane.jobs_B[b] for lane, stays in lanes for b in stays]
        return cls(first.options, request, state, jobs_B, rows, any(lane.moved for lane, _ in lanes))

    def last_tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """(token_R, length_R): what a step reads of each beam, and how long its text is with it."""
        tokens_RM, length_R = running_texts(self.state.groups)
        return tokens_RM[np.arange(len(length_R)), length_R - 1], length_R

    def moves(self) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, parent_X) of each request whose beams go on from others, counted from its first row."""
        X, self.moved, was_moved = self.options.num_beams, False, self.moved
        if was_moved:
            for b, parent_X in enumerate(self.state.parent_R.reshape(-1, X) % X):
                if (parent_X != np.arange(X)).any():
                    yield int(self.row_R[b * X]), parent_X

    def forget_moves(self) -> None:
        """Each beam goes on from its own row: the texts are read again, which are in their new places already."""
        self.moved = False
        self.state.parent_R[...] = np.arange(len(self))

    def written_texts(self) -> list[np.ndarray]:
        """The text of each row, its prompt included."""
        tokens_RM, length_R = running_texts(self.state.groups)
        return [ids[:length].copy() for ids, length in zip(tokens_RM, length_R, strict=True)]

    def advance_rows(self, ops: Any, logits_RV: np.ndarray) -> np.ndarray:
        """The beams of each request go on -> stays_R, the rows that do. It tells the jobs of ends and errors."""
        state, X = self.state, self.options.num_beams
        step_B = state.groups[0].length_B - state.groups[0].prompt_B
        straight = hasattr(ops, "hars_candidates") and option_against_hars(self.options) is None
        step = int(step_B[0]) if self.jobs_B[0].lane_key is None else None  # in a lane of several, the lengths say it
        decided = step_of_beams(ops, logits_RV, state, self.request, self.options, step, straight, None)
        flag = int(decided.flag[0])
        if flag & TROUBLE:
            for b, job in enumerate(self.jobs_B):
                try:
                    troubles = _troubles_of(decided, b, len(self.jobs_B))
                    refuse_step(*troubles, np.zeros(1, np.int64), int(step_B[b]), self.options)
                except MinidecodeError as error:
                    job.fail(error)
        self.moved = bool(flag & MOVED)
        done_B = decided.done_X.reshape(len(state.groups), -1).all(axis=0)
        for b in np.flatnonzero(done_B):
            if (job := self.jobs_B[b]).error is None:
                groups = [beams.of_sentences(np.array([b])) for beams in state.groups]
                best = best_finished(groups, job.request, self.options, 0)
                for s, (ids, score) in enumerate(zip(best.tokens[0], best.scores_BX[0], strict=True)):
                    job.end_text(s, ids, float(score))
        stays_B = [not done and job.runs for done, job in zip(done_B, self.jobs_B, strict=True)]
        return np.flatnonzero(np.repeat(stays_B, X))


Lane = TextLane | BeamLane


def start_lane(job: Job, logits_1V: np.ndarray, positions: int) -> Lane:
    """A lane of one request, whose prompt has been read."""
    return (TextLane if job.options.num_beams == 1 else BeamLane).start(job, logits_1V, positions)


def _join_requests(parts: Sequence[tuple[Request, np.ndarray]]) -> tuple[Request, np.ndarray]:
    """(one request, sentence_X): of those sentences of several that a row is of; each row's sentence in it."""
    prompts, limits, sources, numbers = [], [], [], []
    for request, sentence_X in parts:
        used, number_X = np.unique(sentence_X, return_inverse=True)
        numbers.append(number_X + len(prompts))
        prompts += [request.prompts[b] for b in used]
        sources += [request.sources[b] for b in used]
        limits += [request.limit_B[b] for b in used]
    request = dataclasses.replace(
        parts[0][0], prompts=prompts, limit_B=np.array(limits), sources=sources, keys_R2=None, tables={}
    )
    return request, np.concatenate(numbers)


def _joined_draws(parts: Sequence[tuple[Draws | None, np.ndarray]]) -> Draws | None:
    """Who draws next, row by row: the keys are those of the requests, whatever their rows."""
    known = [draws.of_rows(stays) for draws, stays in parts if draws is not None]
    if not known:
        return None
    return Draws(*(np.concatenate([getattr(draws, name) for draws in known]) for name in ("keys_R2", "step_R")))


def _joined_beams(parts: Sequence[tuple[Beams, np.ndarray]]) -> Beams:
    """One group of beams of these sentences."""
    picked = [beams.of_sentences(stays) for beams, stays in parts]
    names = [name for name in vars(picked[0]) if name.endswith(("_B", "_BW", "_BWM"))]
    arrays = {name: np.concatenate([getattr(beams, name) for beams in picked]) for name in names}
    return dataclasses.replace(picked[0], **arrays)


def _troubles_of(decided: Decided, b: int, B: int) -> tuple[np.ndarray, np.ndarray | None]:
    """(trouble_X, model_trouble_R) of one request of B, which may have none."""
    trouble_X, model_trouble_R = decided.trouble_X.reshape(-1, B)[:, b], decided.model_trouble_R
    return trouble_X, None if model_trouble_R is None else model_trouble_R.reshape(B, -1)[b]


def _fail_jobs(jobs: Sequence[Job], trouble_R: np.ndarray | None, step_R: np.ndarray) -> None:
    """Tells the jobs of the rows in trouble, and no others."""
    for r in [] if trouble_R is None else np.flatnonzero(trouble_R):
        try:
            raise_trouble(trouble_R[r : r + 1], np.zeros(1, np.int64), int(step_R[r]))
        except MinidecodeError as error:
            jobs[r].fail(error)
