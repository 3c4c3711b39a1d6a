"""Records what a decode step writes and reads, by running one at the largest shapes through the same proxy.

The step is a real one: the model's forward pass, the search and the ops of the plan, over caches as long as they will
ever be. Only how the caches came to be filled is skipped: zeros are as long as anything else. All layers share the
arrays of one cache, so that a dry run takes one layer's part of the keys and values that a generation will hold.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import ops as signatures
from ..cache.cross import weight_of_layer
from ..cache.queries import rows_per_token
from ..device.arrays import is_array, put
from ..device.low_precision import PANEL_HEADER
from ..device.weight_blocks import BLOCK, is_in_blocks
from ..dims import letters
from ..options.options import Options
from ..reference import scratch
from ..reference.arena import rounded_to_alignment
from ..runtime.arena import UNPLANNED, Call, Extent, Fresh, Result, StepPlan
from ..runtime.buckets import rounded_capacity
from ..runtime.engine import Engine, watched_by
from ..runtime.planner import Lifetime, lay_out
from ..runtime.receipt import CountedOps, base_array
from .beam import beam_search
from .greedy import greedy_search
from .processors import due_at_every_step, processors_that_make_arrays
from .result import Request


def options_of_step(options: Options) -> Options:
    """The options that decide which ops a step calls and how wide their results are, with all else left out.

    Two rounds long, with one step between them; no text may end before that. Of EOS it matters how many there are.
    """
    return Options(
        dialect=options.dialect, num_beams=options.num_beams, num_return_sequences=options.num_return_sequences,
        num_beam_groups=options.num_beam_groups, diversity_penalty=options.diversity_penalty,
        sibling_penalty=options.sibling_penalty, do_sample=options.do_sample,
        temperature=1.0 if options.temperature == 1.0 else 2.0, top_k=options.top_k, top_p=options.top_p,
        eos_token_id=tuple(range(len(options.eos_token_id))), no_repeat_ngram_size=options.no_repeat_ngram_size,
        renormalize_logits=options.renormalize_logits, max_new_tokens=2, min_new_tokens=1,
        **{name: getattr(options, name) for name in processors_that_make_arrays()},
    )  # fmt: skip


def dry_run(
    network, weights, functions, make_cache, extent: Extent, search: Options, made_for: tuple, device: str = "cpu",
    captured: bool = False,
) -> StepPlan:  # fmt: skip
    """A dry run of one step, and offsets for all that it makes, by `assign_offsets` of these functions.

    It runs where the model lies, on arrays that lie there: so it makes what a step makes. captured: steps are captured,
    so that caches have more room.

    A search may go on from the logits in two ways, where a plan has hars_candidates or the search is greedy: then
    there are two dry runs, one whose last round has something to do with the scores (at the limit), and one whose last
    round has not.
    """
    place = functions["assign_offsets"]
    if extent.new_tokens < 2:  # the prefill gives the only token: there is no step
        nothing: dict[str, tuple[tuple[Call, ...], ...]] = {"reorder": ((),), "forward": ((),), "search": ((),)}
        return StepPlan(lay_out((), place), nothing, extent, made_for, device)
    ways = [(search, 2)]
    is_greedy = search.num_beams == 1 and not search.do_sample and search.rules.greedy_scores == "logits"
    if (search.num_beams > 1 and "hars_candidates" in functions) or (is_greedy and not due_at_every_step(search)):
        ways = [(replace(search, **_due_at_the_limit(search)), 2), (search, 3)]
    engine = functools.partial(_Roomy if captured else Engine, make_cache=make_cache, device=device)
    steps = [_record_last_step(engine, network, weights, functions, extent, *way) for way in ways]
    lifetimes, calls = merge_timelines(steps)
    return StepPlan(lay_out(lifetimes, place), calls, extent, made_for, device)


def _due_at_the_limit(search: Options) -> dict[str, Any]:
    """Options by which a search has something to do with the scores of its last step, if it ever has."""
    if search.dialect == "ctranslate2":
        return {"min_new_tokens": 2}
    return {"forced_eos_token_id": search.eos_token_id if search.dialect == "fairseq" else (0,)}


def _record_last_step(engine, network, weights, functions, extent: Extent, search: Options, limit: int) -> Recorder:
    """The last step of the longest texts, in a search of `limit` rounds that is stopped after its second."""
    plain = engine(network, weights, CountedOps(functions, Fresh()))
    if weights.memory is not None:
        plain.read_latent(np.zeros((extent.sentences, _number_of_inputs(weights.memory)), weights.memory.computed_in))
    recorder = Recorder(lambda: [a for cache in plain.caches for a in cache.arrays()])
    stand_in: Any = _StandIn(plain, extent, CountedOps(functions, recorder))
    sources = [np.zeros(extent.source_tokens, np.int64)] * extent.sentences
    # EOS tokens are the first ones (options_of_step): a unigram ban must leave them possible.
    no_eos = len(search.eos_token_id)
    texts = [np.full(extent.text_tokens - 2, no_eos)] * extent.sentences
    request = Request.make(texts, np.full(extent.sentences, limit), search, sources if extent.source_tokens else ())
    if extent.source_tokens:
        plain.encode(sources)
    with watched_by(None), contextlib.suppress(_RecordedError):
        (greedy_search if search.num_beams == 1 else beam_search)(stand_in, request, search)
    recorder.end_step()
    return recorder


# ---- caches as they are before the last step -----------------------------------------------------------------------


class _RecordedError(Exception):
    """Stops a search that would go on."""


class _Roomy(Engine):
    """Caches are as large as where steps are captured; here none is."""

    def capacity(self, positions: int) -> int:
        return rounded_capacity(positions)

    def capacity_for_texts(self, prompt_X: np.ndarray, limit_X: np.ndarray) -> int:
        return rounded_capacity(int(prompt_X.max())) + rounded_capacity(int(limit_X.max()))


class _StandIn:
    """Stands in for the engine in a search of two rounds. The step between them is the last one of the longest texts.

    The search is handed texts that are as long as they get before it; of prompts the caches hold the longest. No
    sentence leaves: fewer rows take less room.
    """

    drop_finished = captures_now = False

    def __init__(self, engine: Engine, extent: Extent, ops: CountedOps):
        self.engine, self.extent, self.ops = engine, extent, ops
        self.whole = engine.network, engine.weights
        engine.network = _Hollow(engine.weights)
        _, whole = self.whole
        engine.weights = SimpleNamespace(
            blocks=whole.blocks[:1], encoder=SimpleNamespace(blocks=()), query_ND=whole.query_ND,
            target_place=whole.target_place,
            cross_kv=whole.cross_kv and weight_of_layer(whole.cross_kv, 0, len(whole.blocks)),
        )  # fmt: skip

    def prefill(self, texts):
        return self.engine.prefill([np.zeros(self.extent.prompt_tokens, np.int64) for _ in texts])

    def expand(self, beams, steps):
        """All steps but the last, in one layer; then its cache in all layers."""
        engine, N, T = self.engine, self.extent.prompt_tokens, self.extent.new_tokens
        engine.expand(beams, T)
        R = self.extent.sentences * beams
        tokens_RM = put(np.zeros((R, N + T), np.int64), engine.device)
        if engine.make_cache.keeps:
            for t in range(1, T - 1):
                engine.step(tokens_RM, put(np.full(R, N + t), engine.device), None)
        engine.network, engine.weights = self.whole
        engine.caches = [_copy_in_same_state(cache) for cache in engine.caches for _ in engine.weights.blocks]

    def capacity(self, positions):
        """The room that the real engine makes."""
        return self.engine.capacity(positions)

    def capacity_for_texts(self, prompt_X, limit_X):
        """The room that the real engine makes."""
        return self.engine.capacity_for_texts(prompt_X, limit_X)

    def captures(self, key):
        """False: nothing is captured."""
        return False

    def run_step(self, step, state, said, key):
        """The step runs as it is."""
        return state, step(state)

    def step(self, tokens_RM, length_R, parent_R):
        """The real one, which is recorded. The search goes on with zeros: these scores are of no text."""
        if self.engine.ops is self.ops:
            raise _RecordedError
        self.engine.ops = self.ops
        logits_RV = self.engine.step(tokens_RM, length_R, parent_R)
        logits_RV[...] = 0
        return logits_RV


class _Hollow:
    """Stands in for a model's forward passes: caches are filled with zeros, and nothing is computed."""

    def __init__(self, weights):
        self.vocabulary = _number_of_outputs(weights.lm_head)

    def encode(self, weights, ids_R, pos_R, caches, ops):
        qkv = weights.blocks[0].qkv
        return np.zeros((len(ids_R), _number_of_inputs(qkv)), qkv.computed_in, like=ids_R)

    def forward(self, weights, ids_R, pos_R, caches, ops, pick_R=None):
        asked = len(ids_R) if pick_R is None else len(pick_R)
        rows = len(ids_R) + (rows_per_token(weights) - 1) * asked
        for block, cache in zip(weights.blocks, caches, strict=True):
            sizes = _number_of_outputs(block.qkv), _number_of_inputs(block.qkv)
            qkv_RX, h_RD = (np.zeros((rows, n), block.qkv.computed_in, like=ids_R) for n in sizes)
            cache.append(ops, qkv_RX, h_RD)
        return h_RD[:asked]

    def lm_head(self, weights, h_RD, ops):
        return np.zeros((len(h_RD), self.vocabulary), h_RD.dtype, like=h_RD)


def _number_of_inputs(weight) -> int:
    if is_in_blocks(weight):
        return weight.scale.shape[1] * BLOCK
    if weight.layout == "panels":
        return weight.data.shape[1] if weight.scale is None else 4 * (weight.data.shape[1] - PANEL_HEADER)
    return weight.data.shape[0 if weight.layout == "io" else 1]


def _number_of_outputs(weight) -> int:
    return weight.outputs


def _copy_in_same_state(cache):
    """A cache in the same state, over the same keys and values; what it counts by is its own."""
    return copy.deepcopy(cache, {id(array): array for array in _arrays_within(cache) if array.dtype.kind == "f"})


def _arrays_within(thing) -> Iterator[np.ndarray]:
    if is_array(thing):
        yield thing
        return
    for part in thing if isinstance(thing, tuple) else ():
        yield from _arrays_within(part)
    for value in getattr(thing, "__dict__", {}).values():
        yield from _arrays_within(value)


# ---- what is made and read, and when ---------------------------------------------------------------------------------


@dataclass
class _Made:
    """An array that an op made in the step, or the workspace that it asked for."""

    array: np.ndarray | None  # held, so that no later one has its address; None for a workspace
    name: str
    bytes: int
    first: int
    last: int
    is_placed: bool = True
    is_seen: bool = False  # by the search


@dataclass
class _Called:
    """A call of an op: what it made, if that needs an offset, and the argument that has as many rows."""

    op: str
    time: int
    made: list[_Made | None]  # None for a result that is an argument itself
    rows_of: int | None
    room: _Made | None


class Recorder:
    """In the place of `Places` for one step: arrays are allocated as usual, and what is written and read is noted."""

    def __init__(self, held: Callable[[], list[np.ndarray]]):
        self._held = held  # the caches' own arrays, as they are now
        self._section: str | None = None
        self.now = -1
        self.made: list[_Made] = []
        self.calls: dict[str, list[_Called]] = {}
        self._by_root: dict[int, _Made] = {}
        self._times: dict[str, int] = {}  # an op was called

    def begin_section(self, section: str, reads: np.ndarray | None = None) -> None:
        """Begins a section. What the caches hold by now is theirs, and no intermediate."""
        self._note_held()
        self._section = section
        self.calls[section] = []
        self.note_host_reads([] if reads is None else [reads])

    def run_op(self, name: str, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """The op's result. One that the op made has an array of its own; one that is part of an argument stays that."""
        if self._section is None or name in UNPLANNED:
            return function(*args, **kwargs)
        self._note_held()  # a cache may hold an array for a part of a step alone (ReplicatedCache.attend_next)
        self.now += 1
        self._times[name] = self._times.get(name, 0) + 1
        label = f"{name} {self._times[name]}"
        arguments = list(_arrays_within((*args, *kwargs.values())))  # a position bias may be one that the step made
        self.note_host_reads(arguments)
        takes, asked, rows_of = inspect.signature(function).parameters, [], _argument_of_as_many_rows(name)

        def workspace(shape, dtype):
            asked.append(scratch(None, shape, arguments[0], dtype))
            return asked[-1]

        result = function(*args, **kwargs, **({"workspace": workspace} if "workspace" in takes else {}))
        several = result if isinstance(result, tuple) else (result,)
        known = {id(base_array(a)) for a in arguments}
        is_new = [id(base_array(r)) not in known for r in several]
        made = []
        if rows_of is not None and "out" in takes and any(is_new):
            # Copies: views of one array would all live as long as any of them.
            several = tuple(r.copy() if new else r for r, new in zip(several, is_new, strict=True))
            result = several if isinstance(result, tuple) else several[0]
            titles = [f": {title}" for title in signatures.RETURNS[name]] if len(several) > 1 else [""]
            made = [
                self._make(a, label + t, rounded_to_alignment(a.nbytes)) if new else None
                for a, t, new in zip(several, titles, is_new, strict=True)
            ]
        lent = (
            self._make(None, f"{label}: workspace", sum(rounded_to_alignment(a.nbytes) for a in asked))
            if asked
            else None
        )
        self.calls[self._section].append(_Called(name, self.now, made, rows_of, lent))
        return result

    def end_step(self) -> None:
        """The step is over."""
        self._note_held()

    def _make(self, array: np.ndarray | None, name: str, size: int) -> _Made:
        made = _Made(array, name, size, self.now, self.now, is_seen=self._section == "search" and array is not None)
        self.made.append(made)
        if array is not None:
            self._by_root[id(array)] = made
        return made

    def note_host_reads(self, arrays: Sequence[np.ndarray]) -> None:
        """These arrays are read now: by an op, or by NumPy."""
        for array in arrays:
            if made := self._by_root.get(id(base_array(array))):
                made.last = self.now
                made.is_seen |= self._section == "search"

    def _note_held(self) -> None:
        for array in self._held():
            if made := self._by_root.get(id(base_array(array))):
                made.is_placed = False


def _argument_of_as_many_rows(name: str) -> int | None:
    """The argument that has as many rows as the results: their names begin with one letter. Tables are longer."""
    parameters = list(inspect.signature(getattr(signatures, name)).parameters)
    letter = (letters(signatures.RETURNS.get(name, parameters[:1])[0]) or " ")[0]
    tables = signatures.TABLES.get(name, ())
    return next((i for i, p in enumerate(parameters) if (letters(p) or "")[:1] == letter and p not in tables), None)


def _name_of_result(number: int, array: np.ndarray | None) -> Result:
    assert array is not None  # else it would be a workspace
    return Result(number, array.shape[1:], array.dtype)


def merge_timelines(steps: list[Recorder]) -> tuple[list[Lifetime], dict[str, tuple[tuple[Call, ...], ...]]]:
    """All lifetimes, and the calls that they belong to, by section and by the ways in which a search may go on.

    The first step counts whole; of the others the search alone, as if it came behind the first one's. What a search has
    seen lives past its last call, for it reads scores by NumPy too, where no proxy sees it; and what the forward pass
    hands over lives past the last call of all.
    """
    first = steps[0]
    ends, shifts = [first.now + 1], [0]
    for step in steps[1:]:
        shifts.append(ends[-1] + 1 - step.calls["search"][0].time)
        ends.append(step.now + 1 + shifts[-1])
    lifetimes: list[Lifetime] = []
    index: dict[int, int] = {}
    for number, (step, end, shift) in enumerate(zip(steps, ends, shifts, strict=True)):
        searching = {id(m) for call in step.calls["search"] for m in [*call.made, call.room]}
        for m in step.made:
            if m.is_placed and (number == 0 or id(m) in searching):
                index[id(m)] = len(lifetimes)
                past = (end if id(m) in searching else ends[-1]) if m.is_seen else m.last + shift
                lifetimes.append(Lifetime(m.name, m.bytes, m.first + shift, past))

    def place_lifetime(calls: list[_Called], shift: int) -> tuple[Call, ...]:
        shifted = []
        for c in calls:
            made = [m for m in c.made if m is None or m.is_placed]
            results = tuple(None if m is None else _name_of_result(index[id(m)], m.array) for m in made)
            room = None if c.room is None else index[id(c.room)]
            shifted.append(Call(c.op, c.time + shift, results, c.rows_of, room))
        return tuple(shifted)

    calls = {section: (place_lifetime(first.calls[section], 0),) for section in ("reorder", "forward")}
    ways = (place_lifetime(step.calls["search"], shift) for step, shift in zip(steps, shifts, strict=True))
    return lifetimes, calls | {"search": tuple(ways)}
