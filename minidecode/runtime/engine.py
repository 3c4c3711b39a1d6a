"""One generation in flight: prefill, then steps."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol

import numpy as np

from ..cache.cross import DecoderCache
from ..cache.latent import Latent, offsets_with_latent
from ..cache.no_cache import NoCache
from ..cache.padding import offsets_from_lengths
from ..cache.prefix import Prefix
from ..cache.protocol import StepCache
from ..cache.queries import QueryCache, QueryCross, QueryRows, rows_per_token
from ..cache.source import Source
from ..device.arrays import fetch, fetch_constant, put, put_constant
from ..device.graphs import Captured, GraphCounts
from ..within import set_within
from .buckets import Bucket, Buckets, caches_over_same_arrays, key_of_steps, rounded_capacity
from .cpu_graphs import CapturedOnCpu
from .in_front import InFront
from .passes import Passes
from .receipt import bytes_held_by

CALLED_OFF: ContextVar[threading.Event | None] = ContextVar("called_off", default=None)  # set: the reader left
WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)  # looks on between the steps
LOGITS_ROWS = 64  # scored at a time: 13 MB of GPT-2's logits; with more, the product is hardly faster


class Watcher(Protocol):
    """Looks at an engine between its stages, and changes nothing."""

    def forward_ended(self, engine: Engine) -> None:
        """The prefill or the forward pass of a step is done."""

    def step_begins(
        self, engine: Engine, tokens_RM: np.ndarray, length_R: np.ndarray, parent_R: np.ndarray | None
    ) -> None:
        """The search has chosen; these are the arguments of `Engine.step`."""


def watched_by(watcher: Watcher | None) -> AbstractContextManager[Watcher | None]:
    """The generations of this block have this watcher, or none."""
    return set_within(WATCHER, watcher)


class CalledOff(BaseException):
    """Ends a generation at its next step, because its reader has left."""


def timed(stage: str) -> Callable:
    """Adds a method's seconds to those of its stage, without the seconds of timed methods that it calls."""

    def wrap(method: Callable) -> Callable:
        @functools.wraps(method)
        def call(self, *args, **kwargs):
            started, before = time.perf_counter(), sum(self.seconds.values())
            result = method(self, *args, **kwargs)
            counted = sum(self.seconds.values()) - before
            self.seconds[stage] += time.perf_counter() - started - counted
            return result

        return call

    return wrap


class Engine:
    """Runs a forward pass over the rows that a prefill or a step needs, and looks after the caches.

    `network` is a module of models/, `weights` what its forward pass reads; `ops` and `make_cache`, a CacheFactory,
    are the plan's.
    """

    why_in_parts: ClassVar[str] = ""  # why no step of such an engine is one launch, if none is

    def __init__(
        self, network, weights, ops, make_cache, drop_finished: bool = False, device: str = "cpu",
        buckets: Buckets | None = None, on_cpu: CapturedOnCpu | None = None, passes: Passes | None = None,
    ):  # fmt: skip
        self.network, self.weights, self.ops, self.make_cache = network, weights, ops, make_cache
        self.device = device  # where weights lie, and all that ops are handed
        self.drop_finished = drop_finished  # whether a search takes sentences out of the batch when they are done
        self.buckets = buckets  # where captured steps are kept; None: steps are not captured
        self.passes = passes  # where encoders and prefills are kept; None: they are not captured
        self.bucket: Bucket | None = None  # the one that the steps run in now
        self.captures_now = False  # whether the step that runs now is captured whole, and none of its parts
        self.on_cpu = on_cpu  # what captures steps on the CPU; None: it does not
        self.graphs = GraphCounts()
        self.rows = 0  # that all steps have computed
        self.caches: list[StepCache] = []  # by layer
        self.source: Source | None = None
        self.latent: Latent | None = None
        self.in_front: InFront | None = None  # sources that the layers of the texts read themselves
        self.places_R: np.ndarray | None = None  # then what comes on top of a row's number in its text
        self.cache_peak_bytes = 0
        self.beside_bytes = 0  # in caches of another engine that steps beside this one
        self.counted: list[weakref.ref] = []  # arrays by which `_note_cache_bytes` knows what it has counted
        self.seconds: defaultdict[str, float] = defaultdict(float)  # by stage

    @timed("encoder")
    def encode(self, sources: list[np.ndarray]) -> None:
        """Runs the encoder over all tokens of all sources, without padding; prefill and steps then look at them.

        A model without an encoder reads them in the prefill, in front of the texts.
        """
        if self.weights.target_place is not None:
            self.in_front = InFront.from_sources(sources, self.weights, self.device)
            return
        ids_R, pos_R, offsets_X = self._rows_of_sequences(sources)

        def encode(ids_R):
            caches = [NoCache(b, offsets_X, causal=False) for b in self.weights.encoder.blocks]
            return self.network.encode(self.weights, ids_R, pos_R, caches, self.ops)

        lengths = [len(source) for source in sources]
        h_RD = self._run_or_capture_pass(("encoder", *lengths), encode, [ids_R], [pos_R, offsets_X])
        self.source = Source(h_RD, offsets_X, self.make_cache.stored_as, self.capacity(max(lengths)))

    @timed("prefill")
    def read_latent(self, z_BZ: np.ndarray) -> None:
        """The latents of the sentences that come next: prefill and steps put them in front of texts."""
        self.latent = Latent(*self.network.project_latent(self.weights, put(z_BZ, self.device), self.ops))

    @timed("prefill")
    def prefill(self, prompts: list[np.ndarray], every_row: bool = False) -> np.ndarray:
        """All tokens of all prompts in one pass, without padding -> logits of each prompt's last token, (B, V).

        With every_row, the logits of all tokens, (R, V), sentence after sentence.
        """
        if every_row or self._capturer_of("pass") is None:
            return self._logits_after(prompts, every_row)
        logits_RV, self.caches, self.source = self._captured_prefill(prompts, self.source)
        self._note_cache_bytes()
        return logits_RV

    def _captured_prefill(self, prompts: list[np.ndarray], source: Source | None) -> tuple[np.ndarray, list, Any]:
        """(logits_RV, caches, source): computed into arrays of the graph, until `_run_or_capture_pass` copies it."""
        ids_R, pos_R, offsets_X = self._rows_of_sequences(prompts)
        lengths, pick_R = [len(prompt) for prompt in prompts], offsets_X[1:] - 1
        first_B = [length - 1 for length in lengths]

        def read(ids_R, source_h_RD=None):
            if source is not None:
                self.source = Source(source_h_RD, source.offsets_X, source.stored_as, source.N)
            self.caches = self._new_caches(lengths, first_B, offsets_X, None)
            h_RD = self.network.forward(self.weights, ids_R, pos_R, self.caches, self.ops, pick_R)
            return self.network.lm_head(self.weights, h_RD, self.ops), self.caches, self.source

        if source is None:
            return self._run_or_capture_pass(("prefill", *lengths), read, [ids_R], [pos_R, offsets_X, pick_R])
        what = ("prefill", *lengths), tuple(fetch_constant(source.offsets_X).tolist())
        return self._run_or_capture_pass(what, read, [ids_R, source.h_RD], [pos_R, offsets_X, pick_R, source.offsets_X])

    def _run_or_capture_pass(self, what: tuple, run: Callable[..., Any], inputs: list[Any], beside: list[Any]) -> Any:
        """run(*inputs), a pass over whole texts, which `what` tells from others: captured if it comes again."""
        passes = self._capturer_of("pass")
        if passes is None:
            return run(*inputs)
        key = key_of_steps(self.ops, [], said=(what, self.make_cache))
        return passes(key, self.ops, self.graphs, run, inputs, beside)

    def _logits_after(self, prompts: list[np.ndarray], every_row: bool = False) -> np.ndarray:
        h_RD = self._read_texts(prompts, every_row)
        logits_RV = self.network.lm_head(self.weights, h_RD, self.ops)
        self._note_cache_bytes()
        return logits_RV

    def score(
        self, texts: list[np.ndarray], scored: list[np.ndarray], best: int = 1
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(score_R, best_RK, best_score_RK) for the tokens in `scored`: their log-probabilities, and the model's first
        choices, the likeliest K tokens with theirs.

        scored[b] are the tokens that come after the last len(scored[b]) tokens of texts[b]. Logits for all rows would
        be a table of tokens x vocabulary: there are only ever those of LOGITS_ROWS rows.
        """
        h_RD = self._read_texts(texts, every_row=True)
        ends = zip(scored, np.cumsum([len(text) for text in texts]), strict=True)
        pick_R, token_R = np.concatenate([np.arange(end - len(s), end) for s, end in ends]), np.concatenate(scored)
        score_R = np.empty(len(token_R), h_RD.dtype)
        best_RK, best_score_RK = np.empty((len(token_R), best), np.int64), np.empty((len(token_R), best), h_RD.dtype)
        for first in range(0, len(token_R), LOGITS_ROWS):
            here = slice(first, first + LOGITS_ROWS)
            picked_RD = self.ops.gather_rows(h_RD, put(pick_R[here], self.device))
            logits_RV = self.network.lm_head(self.weights, picked_RD, self.ops)
            score_R[here] = fetch(self.ops.token_logprobs(logits_RV, put(token_R[here], self.device)))
            if best == 1:
                id_RK = logits_RV.argmax(axis=1)[:, None]
                logit_RK = np.take_along_axis(logits_RV, id_RK, axis=1)
            else:
                logit_RK, id_RK = self.ops.top_candidates(logits_RV, best)
            first_R = self.ops.token_logprobs(logits_RV, id_RK[:, 0])  # to the bit what score_R says of this token
            best_RK[here], best_score_RK[here] = fetch(id_RK), fetch(first_R[:, None] + (logit_RK - logit_RK[:, :1]))
        return score_R, best_RK, best_score_RK

    @timed("prefill")
    def expand(self, beams: int, steps: int) -> None:
        """Begins the steps, with one row per beam: at most this many steps."""
        if self.in_front is not None:
            self._keep_sources_in_front(np.repeat(np.arange(len(self.in_front.sources)), beams))
        if self.make_cache.keeps:
            for cache in self.caches:
                cache.expand(self.ops, beams, self.capacity(steps))
            self.source = self.latent = None  # the caches hold what is needed of them
            self._note_cache_bytes()
        elif self.source is not None:  # whole sequences again at each step, each beam with a source of its own
            self.source = self.source.pick_sentences(
                self.ops, np.repeat(np.arange(len(self.source.offsets_X) - 1), beams)
            )
        elif self.latent is not None:
            each_R = np.repeat(np.arange(len(self.latent.addend_BD)), beams)
            self.latent = self.latent.pick_sentences(self.ops, put(each_R, self.device))
        if (watcher := WATCHER.get()) is not None:
            watcher.forward_ended(self)

    def sentences_that_stay(self, done_B: np.ndarray) -> np.ndarray:
        """The sentences that stay when these are done: all others.

        Where steps are kept, the batch shrinks to its half, its quarter and so on (rounded up): steps of those sizes
        may have been captured before. So some sentences that are done may stay.
        """
        going = np.count_nonzero(~done_B)
        size = going if self.buckets is None else len(done_B)
        while size > 1 and (half := -(-size // 2)) >= going:
            size = half
        return np.sort(np.argsort(done_B, kind="stable")[:size])

    @timed("steps")
    def keep_only(self, stays_B: np.ndarray, beams: int) -> None:
        """Keeps these sentences alone, in this order, each with all of its `beams` rows.

        Every layer copies what it keeps of them. That is about what a step reads, and a step computes with it besides;
        each sentence leaves once, and every step after that is spared its rows. So it pays from a few steps on, which
        are seldom the last ones: beams that wait are there because others have far to go.
        """
        stays_R = (stays_B[:, None] * beams + np.arange(beams)).reshape(-1)
        self.ops.places.begin_section("leave")
        if self.bucket is not None:
            self.caches = caches_over_same_arrays(self.caches)
        there = put(stays_B, self.device), put(stays_R, self.device)
        self._forget_captured()  # it keeps caches alive
        for cache in self.caches:
            cache.keep_only(self.ops, *there)
        if self.source is not None:  # whole sequences again at each step
            self.source = self.source.pick_sentences(self.ops, stays_R)
        if self.latent is not None:
            self.latent = self.latent.pick_sentences(self.ops, there[1])
        if self.in_front is not None:
            self._keep_sources_in_front(stays_R)
        self.give_back_bucket()  # not before its caches have been read: then it may be another one's

    @timed("steps")
    def step(self, tokens_RM: np.ndarray, length_R: np.ndarray, parent_R: np.ndarray | None) -> np.ndarray:
        """logits_RV for the token after tokens[r, :length[r]], whose last token is new; row r goes on from parent[r].

        Without parents each row goes on from itself, and no cache need follow. A cache that keeps keys and values
        computes that last token alone, at position length - 1.
        """
        self._check_called_off()
        if (watcher := WATCHER.get()) is not None:
            watcher.step_begins(self, tokens_RM, length_R, parent_R)
        begin = self.ops.places.begin_section
        begin("reorder")
        self.rows += len(length_R) * rows_per_token(self.weights)
        if self.make_cache.keeps and parent_R is not None:
            self._run_part("reorder", self._follow_beams, parent_R)
        begin("forward")
        if self.make_cache.keeps:
            every_R, last_R = np.arange(len(length_R), like=length_R), length_R - 1
            pos_R = last_R if self.places_R is None else last_R + self.places_R
            logits_RV = self._run_part("forward", self._logits_of_tokens, tokens_RM[every_R, last_R], pos_R)
            self._note_cache_bytes()
        else:
            texts_RM = fetch(tokens_RM)
            logits_RV = self._logits_after([texts_RM[r, :length] for r, length in enumerate(fetch(length_R))])
        begin("search", reads=logits_RV)
        if watcher is not None:
            watcher.forward_ended(self)
        return logits_RV

    def run_step(self, step: Callable[[Any], Any], state: Any, said: str, key: Hashable) -> tuple[Any, Any]:
        """(state, step(state)): a step of a search from one choice of tokens to the next, which calls `self.step`.

        On a device that captures steps, the state that goes on is the bucket's. There a step with a key, which tells it
        from steps that do something else, is one launch: `step` then does the same on the same arrays each time and
        looks at no number; a text in place of a key says why it looks at some. said: the search's options, in words.
        """
        if self.buckets is None:
            return state, step(state)
        if self.bucket is None:
            self._enter_bucket(state, said)
        assert self.bucket is not None
        state, captured = self.bucket.state, self._capturer_of("step", key)
        if captured is None:
            return state, step(state)
        self._check_called_off()
        return state, self._launch(captured, lambda: step(state), len(state))

    def _capturer_of(self, what: str, key: Hashable = None) -> Any:
        """What captures this, and launches it later; None: it runs as it is.

        what: a "pass" over whole texts, which is captured if their lengths decide all that it reads from the host; a
        "step" from tokens to tokens, with its key; or the name of a part of one. On the CPU, the forward pass of a step
        is captured alone, anew in each generation.
        """
        if what == "forward" and self.on_cpu is not None:
            return self.on_cpu
        if (self.passes if what == "pass" else self.buckets) is None or self.captures_now:
            return None
        if what == "pass":
            is_by_lengths = self.in_front is self.latent is None and rows_per_token(self.weights) == 1
            return self.passes if is_by_lengths and not self._why_in_parts() else None
        if self.bucket is None:
            self._enter_bucket()
        assert self.bucket is not None
        if what != "step":
            return self.bucket.captured_part(what)
        if self.captures(key):
            return self.bucket.captured_part(key)
        self.graphs.why_not = self._why_in_parts(key) or self.graphs.why_not
        return None

    def captures(self, key: Hashable) -> bool:
        """Whether a step with this key is one launch: the next one, and all others until a part of it is refused."""
        if self.buckets is None or self._why_in_parts(key):
            return False
        return self.bucket is None or self.bucket.captured_part(key).can_be

    def _why_in_parts(self, key: Hashable = None) -> str:
        """Why a step with this key, or a pass, cannot be one launch here; empty where it can."""
        if isinstance(key, str):
            return key
        if self.why_in_parts:
            return self.why_in_parts
        if not self.make_cache.keeps:
            return "cache=none computes all tokens again"
        return self.ops.places.why_in_parts or ("the steps are watched" if WATCHER.get() else "")

    @timed("steps")
    def _launch(self, step: Captured, run: Callable[[], Any], rows: int) -> Any:
        if step.graph is not None:
            self.rows += rows * rows_per_token(self.weights)
        self.captures_now = True
        try:
            return step(self.ops, self.graphs, run)
        finally:
            self.captures_now = False

    def _enter_bucket(self, state: Any = None, said: str = "") -> None:
        """Moves the caches and the state into a bucket."""
        assert self.buckets is not None
        self.bucket = self.buckets.acquire(self.ops, self.caches, state, said, self.places_R)
        self.caches, self.places_R = self.bucket.caches, self.bucket.places_R
        self.graphs.reused += len(self.bucket.graphs)

    def _run_part(self, part: str, run: Callable[..., Any], *arrays: np.ndarray) -> Any:
        """A part of a step: where steps are captured, over a bucket's caches, which may have been captured before."""
        captured = self._capturer_of(part)
        return run(*arrays) if captured is None else captured(self.ops, self.graphs, run, *arrays)

    def _check_called_off(self) -> None:
        """Raises CalledOff if the reader has left."""
        if (called_off := CALLED_OFF.get()) is not None and called_off.is_set():
            raise CalledOff

    def give_back_bucket(self) -> None:
        """The bucket may be another generation's. A failed generation does not call this: its bucket is dropped."""
        self._forget_captured()
        if self.bucket is not None and self.buckets is not None:
            self.buckets.give_back(self.bucket)
            self.bucket = None

    def _forget_captured(self) -> None:
        """Drops captured steps: no step follows, or the next ones have other rows."""
        if self.on_cpu is not None:
            self.on_cpu.forget()

    def capacity(self, positions: int) -> int:
        """The size of an array for this many positions: kept steps want few sizes."""
        return positions if self.buckets is None else rounded_capacity(positions)

    def capacity_for_texts(self, prompt_X: np.ndarray, limit_X: np.ndarray) -> int:
        """The size of an array for texts of these prompts and at most this many new tokens."""
        if self.buckets is None:
            return int((prompt_X + limit_X).max())
        return self.capacity(int(prompt_X.max())) + self.capacity(int(limit_X.max()))

    def _follow_beams(self, parent_R: np.ndarray) -> None:
        for cache in self.caches:
            cache.reorder(self.ops, parent_R)

    def _logits_of_tokens(self, ids_R: np.ndarray, pos_R: np.ndarray) -> np.ndarray:
        """logits_RV of one token a row, all of them."""
        h_RD = self.network.forward(self.weights, ids_R, pos_R, self.caches, self.ops)
        return self.network.lm_head(self.weights, h_RD, self.ops)  # of every row: none is picked

    def _read_texts(self, texts: list[np.ndarray], every_row: bool) -> np.ndarray:
        """All tokens of all texts in one forward pass, into caches that begin here -> h_RD of every token.

        Without every_row, of each text's last one.
        """
        if self.in_front is not None:
            texts = self.in_front.texts_behind_sources(texts)
        ids_R, pos_R, offsets_X = self._rows_of_sequences(texts)
        lengths, prefix = [len(text) for text in texts], None
        if self.in_front is None:
            first_B = [0 if every_row else length - 1 for length in lengths]  # the first token that predicts
            pick_R = None if every_row else offsets_X[1:] - 1
        else:
            first_B = self.in_front.first_B(lengths, every_row)
            pos_R, prefix, pick_R = self.in_front.layout(lengths, first_B)
        self.caches = self._new_caches(lengths, first_B, offsets_X, prefix)
        h_RD = self.network.forward(self.weights, ids_R, pos_R, self.caches, self.ops, pick_R)
        if not self.make_cache.keeps:
            self.caches = []
        return h_RD

    def _new_caches(self, lengths: list[int], first_B: list[int], offsets_X: np.ndarray, prefix: Prefix | None) -> list:
        """What each layer attends to in a forward pass over texts of these lengths, and keeps of it for steps.

        first_B: of each text the first token that predicts. prefix: the sources that begin the texts.
        """
        blocks, targets_X = self.weights.blocks, offsets_X
        rows: QueryRows | None = None
        caches: list[Any]
        if self.latent is None:
            caches = [self.make_cache(block, offsets_X, self.capacity(max(lengths)), prefix) for block in blocks]
        else:
            with_latents_X, N = offsets_with_latent(offsets_X), self.capacity(max(lengths) + 1)
            of_layers = [self.make_cache(block, with_latents_X, N) for block in blocks]
            caches = self.latent.wrap_caches(blocks, of_layers, offsets_X)
        if rows_per_token(self.weights) == 2:
            rows = QueryRows.for_sentences(lengths, first_B, blocks[0].heads.window, self.device)
            caches, targets_X = [QueryCache(cache, rows) for cache in caches], rows.offsets_X
        if self.source is None:
            return caches
        crosses = self.make_cache.make_source_caches(self.ops, self.weights, self.source, targets_X)
        if rows is not None:
            crosses = [QueryCross(*both) for both in zip(crosses, caches, strict=True)]
        return [DecoderCache(*both) for both in zip(caches, crosses, strict=True)]

    def _keep_sources_in_front(self, pick_X: np.ndarray) -> None:
        """The sources of these texts, one for each row."""
        assert self.in_front is not None
        self.in_front = self.in_front.pick_sentences(pick_X)
        self.places_R = self.in_front.place_shift_R()

    def _rows_of_sequences(self, sequences: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(ids_R, pos_R, offsets_X): all tokens one after the other, and where each sequence begins and ends."""
        lengths_B = np.array([len(s) for s in sequences])
        offsets_X = offsets_from_lengths(lengths_B)
        ids_R = np.concatenate(sequences)
        pos_R = np.arange(len(ids_R)) - np.repeat(offsets_X[:-1], lengths_B)
        return put(ids_R, self.device), put(pos_R, self.device), put_constant(offsets_X, self.device)

    def _note_cache_bytes(self) -> None:
        """Counts what is held, unless it is what was counted last: the first layer tells, for all change together.

        To walk through all layers takes a hundredth of a step of a small model. Weak references keep nothing alive.
        """
        of_source = self.source.arrays() if self.source is not None else ()
        telling = [*(self.caches[0].arrays() if self.caches else ()), *of_source]
        if len(telling) == len(self.counted) and all(ref() is a for ref, a in zip(self.counted, telling, strict=True)):
            return
        self.counted = [weakref.ref(a) for a in telling]
        held = bytes_held_by([*(a for cache in self.caches for a in cache.arrays()), *of_source])
        self.cache_peak_bytes = max(self.cache_peak_bytes, held + self.beside_bytes)
