"""What a decode step makes and reads, and when: learnt by running one at the largest shapes, through the same proxy.

The step is a real one: the model's forward pass, the search and the ops of the plan, over memories as long as they will
ever be. Only how the memories came to be filled is skipped: zeros are as long as anything else. All layers share the
arrays of one memory, so that a dry run takes one layer's part of the keys and values that a generation will hold.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import ops as signatures
from ..search.beam import beam_search
from ..search.greedy import greedy
from ..search.options import Options
from ..search.result import Request
from .arena import Call, Extent, Fresh, Result, StepPlan, aligned
from .engine import Engine
from .planner import Lifetime, separate_layout, shared_layout
from .receipt import CountedOps, root

LAYOUTS = {"planned": shared_layout, "separate": separate_layout}


def search_of(options: Options) -> Options:
    """The same search with all else left out: what decides which ops a step calls, and how wide their results are.

    Two rounds long, with one step between them; no text may end before that. Of EOS it matters how many there are.
    """
    return Options(
        dialect=options.dialect, num_beams=options.num_beams, num_return_sequences=options.num_return_sequences,
        num_beam_groups=options.num_beam_groups, diversity_penalty=options.diversity_penalty,
        sibling_penalty=options.sibling_penalty, do_sample=options.do_sample,
        eos_token_id=range(len(options.eos_token_id)), no_repeat_ngram_size=options.no_repeat_ngram_size,
        renormalize_logits=options.renormalize_logits, max_new_tokens=2, min_new_tokens=1,
    )  # fmt: skip


def dry_run(
    network, weights, functions, make_memory, arena: str, extent: Extent, search: Options, made_for: tuple
) -> StepPlan:
    """A dry run of one step, and places for all that it makes. arena: "planned" or "separate"."""
    if extent.new_tokens < 2:  # the prefill gives the only token: there is no step
        return StepPlan(LAYOUTS[arena](()), {"follow": (), "forward": (), "search": ()}, extent, made_for)
    plain = Engine(network, weights, CountedOps(functions, Fresh()), make_memory)
    recorder = Recorder(lambda: [a for memory in plain.memories for a in memory.arrays()])
    stand_in = _StandIn(plain, extent, CountedOps(functions, recorder))
    sources = [np.zeros(extent.source_tokens, np.int64)] * extent.sentences
    texts = [np.zeros(extent.text_tokens - 2, np.int64)] * extent.sentences
    request = Request.make(texts, np.full(extent.sentences, 2), search, sources if extent.source_tokens else ())
    if extent.source_tokens:
        plain.encode(sources)
    if search.num_beams == 1:
        greedy(stand_in, request, search)
    else:
        beam_search(stand_in, request, search)
    lifetimes, calls = recorder.finish()
    return StepPlan(LAYOUTS[arena](lifetimes), calls, extent, made_for)


# ---- memories as they are before the last step -----------------------------------------------------------------------


class _StandIn:
    """Stands in for the engine in a search of two rounds. The step between them is the last one of the longest texts.

    The search is handed texts that are as long as they get before it; of prompts the memories hold the longest.
    """

    def __init__(self, engine: Engine, extent: Extent, ops: CountedOps):
        self.engine, self.extent, self.ops = engine, extent, ops
        self.whole = engine.network, engine.weights
        engine.network = _Hollow(engine.weights)
        engine.weights = SimpleNamespace(blocks=engine.weights.blocks[:1], encoder=SimpleNamespace(blocks=()))

    def prefill(self, texts):
        return self.engine.prefill([np.zeros(self.extent.prompt_tokens, np.int64) for _ in texts])

    def expand(self, beams, steps):
        """All steps but the last, in one layer; then its memory in all layers."""
        engine, N, T = self.engine, self.extent.prompt_tokens, self.extent.new_tokens
        engine.expand(beams, T)
        every_R = np.arange(self.extent.sentences * beams)
        tokens_RM = np.zeros((len(every_R), N + T), np.int64)
        if engine.make_memory.keeps:
            for t in range(1, T - 1):
                engine.step(tokens_RM, np.full(len(every_R), N + t), every_R)
        engine.network, engine.weights = self.whole
        engine.memories = [_twin(memory) for memory in engine.memories for _ in engine.weights.blocks]

    def step(self, tokens_RM, length_R, parent_R):
        """The real one, which is recorded. The search goes on with zeros: these scores are of no text."""
        self.engine.ops = self.ops
        logits_RV = self.engine.step(tokens_RM, length_R, parent_R)
        logits_RV[...] = 0
        return logits_RV


class _Hollow:
    """Stands in for a model's forward passes: memories are filled with zeros, and nothing is computed."""

    def __init__(self, weights):
        self.vocabulary = _outputs(weights.unembed)

    def encode(self, weights, ids_R, pos_R, memories, ops):
        qkv = weights.blocks[0].qkv
        return np.zeros((len(ids_R), _inputs(qkv)), qkv.data.dtype)

    def forward(self, weights, ids_R, pos_R, memories, ops):
        for block, memory in zip(weights.blocks, memories, strict=True):
            qkv_RX = np.zeros((len(ids_R), _outputs(block.qkv)), block.qkv.data.dtype)
            h_RD = np.zeros((len(ids_R), _inputs(block.qkv)), qkv_RX.dtype)
            memory.append(ops, qkv_RX, h_RD)
        return h_RD

    def unembed(self, weights, h_RD, ops):
        return np.zeros((len(h_RD), self.vocabulary), h_RD.dtype)


def _inputs(weight) -> int:
    return weight.data.shape[0 if weight.layout == "io" else 1]


def _outputs(weight) -> int:
    return weight.data.shape[1 if weight.layout == "io" else 0]


def _twin(memory):
    """A memory in the same state, over the same arrays."""
    return copy.deepcopy(memory, {id(array): array for array in _arrays_of(memory)})


def _arrays_of(thing) -> Iterator[np.ndarray]:
    if isinstance(thing, np.ndarray):
        yield thing
    for part in thing if isinstance(thing, tuple) else ():
        yield from _arrays_of(part)
    for value in getattr(thing, "__dict__", {}).values():
        yield from _arrays_of(value)


# ---- what is made and read, and when ---------------------------------------------------------------------------------


@dataclass
class _Made:
    """An array that an op made in the step."""

    array: np.ndarray | None  # held, so that no later one has its address; None for a workspace
    name: str
    bytes: int
    first: int
    last: int
    placed: bool = True


class Recorder:
    """In the place of `Places` for one step: NumPy finds room as ever, and it is noted what is made and read when."""

    def __init__(self, held: Callable[[], list[np.ndarray]]):
        self._held = held  # the memories' own arrays, as they are now
        self._section, self._now = None, -1
        self._made: list[_Made] = []
        self._by_root: dict[int, _Made] = {}
        self._calls: dict[str, list[tuple[str, list[_Made], int, _Made | None]]] = {}
        self._times: dict[str, int] = {}  # an op was called

    def begin(self, section: str, reads: np.ndarray | None = None) -> None:
        """As in `Fresh`. What the memories hold by now is theirs, and no intermediate."""
        self._note_held()
        self._section = section
        self._calls[section] = []
        if reads is not None:
            self._read([reads], self._now + 1)

    def run(self, name: str, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """The op's result. One that the op made has an array of its own; one that is part of an argument stays that."""
        if self._section is None:
            return function(*args, **kwargs)
        self._now += 1
        self._times[name] = self._times.get(name, 0) + 1
        label = f"{name} {self._times[name]}"
        arguments = [a for a in (*args, *kwargs.values()) if isinstance(a, np.ndarray)]
        self._read(arguments, self._now)
        takes = inspect.signature(function).parameters
        asked = []

        def workspace(shape, dtype):
            asked.append(np.empty(shape, dtype))
            return asked[-1]

        result = function(*args, **kwargs, **({"workspace": workspace} if "workspace" in takes else {}))
        several = result if isinstance(result, tuple) else (result,)
        known = {id(root(a)) for a in arguments}
        is_new = "out" in takes and not any(id(root(r)) in known for r in several)
        made = []
        if is_new:
            several = tuple(np.array(r) for r in several)  # views of one array would all live as long as any of them
            titles = signatures.RETURNS.get(name) if len(several) > 1 else None
            for i, array in enumerate(several):
                title = f"{label}: {titles[i]}" if titles else label
                made.append(self._make(array, title, aligned(array.nbytes)))
        room = self._make(None, f"{label}: workspace", sum(aligned(a.nbytes) for a in asked)) if asked else None
        self._calls[self._section].append((name, made, _rows_of(name), room))
        return (several if isinstance(result, tuple) else several[0]) if is_new else result

    def finish(self) -> tuple[list[Lifetime], dict[str, tuple[Call, ...]]]:
        """All lifetimes, in the order in which they begin, and the calls that they belong to.

        What the search has seen lives past its last call: it reads scores by NumPy too, where no proxy sees it.
        """
        self._note_held()
        placed = [m for m in self._made if m.placed]
        index = {id(m): i for i, m in enumerate(placed)}
        searching = self._now + 1 - len(self._calls["search"])
        for m in placed:
            if m.last >= searching and m.array is not None:
                m.last = self._now + 1
        calls = {
            section: tuple(
                Call(
                    name,
                    tuple(Result(index[id(m)], m.array.shape[1:], m.array.dtype) for m in made if m.placed),
                    rows_of,
                    None if room is None else index[id(room)],
                )
                for name, made, rows_of, room in calls
            )
            for section, calls in self._calls.items()
        }  # fmt: skip
        return [Lifetime(m.name, m.bytes, m.first, m.last) for m in placed], calls

    def _make(self, array: np.ndarray | None, name: str, size: int) -> _Made:
        made = _Made(array, name, size, self._now, self._now)
        self._made.append(made)
        if array is not None:
            self._by_root[id(array)] = made
        return made

    def _read(self, arrays: list[np.ndarray], call: int) -> None:
        for array in arrays:
            if made := self._by_root.get(id(root(array))):
                made.last = call

    def _note_held(self) -> None:
        for array in self._held():
            if made := self._by_root.get(id(root(array))):
                made.placed = False


def _rows_of(name: str) -> int:
    """The argument that a result has as many rows as: the first, unless it is a table that rows are taken from."""
    parameters = list(inspect.signature(getattr(signatures, name)).parameters)
    return next(i for i, p in enumerate(parameters) if p not in signatures.TABLES.get(name, ()))
