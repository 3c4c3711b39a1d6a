"""What really ran: a proxy around the ops that counts their calls, and the receipt made from it."""

from __future__ import annotations

import functools
import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .. import ops as signatures
from ..catalog import CATALOG, Cost
from ..cpu.common.code_paths import CODE_PATHS, COUNTS
from ..device.arrays import fetch
from ..device.graphs import GraphCounts
from ..device.kernels import Loading
from ..device.user_functions import describe_function
from ..errors import OptionError, counted, shown
from .arena import Fresh


@dataclass
class OpCount:
    """One op of one generation: which function it was, how often it ran, what it took."""

    implementation: str
    calls: int = 0
    seconds: float = 0.0
    bytes: int = 0  # arrays handed in and returned, once per call each; of a table, as much as came out
    code_paths: dict[str, int] = field(
        default_factory=dict
    )  # of an op that chooses: calls of its own code, of the BLAS
    costs: list[Cost] = field(default_factory=list)  # of each call, where that was asked for: what it takes at least


CostOf = Callable[[str, Any, dict[str, Any]], Cost | None]
COST_OF = {row.op: (row.cost, list(inspect.signature(row.cost).parameters)) for row in CATALOG.values()}


class CountedOps:
    """Stands in front of the ops; the forward pass and the search see functions of the same names.

    costs: note of each call what it takes: cost_of(op, implementation, arguments by name), asked before the call; True
    asks the catalog. Where that is None, as for an op that is no row of the catalog, arguments and result are moved,
    and what is computed is not counted.
    """

    def __init__(self, functions: dict[str, Any], places: Any = None, costs: bool | CostOf = False):
        self.functions = functions
        self._counts: dict[str, OpCount] = {}
        self._every: dict[str, OpCount] = {}  # of ops that are not called yet, too
        if costs and costs is not True and not callable(costs):
            raise OptionError(
                f"costs must be True, False or a function of (op, function, arguments), not {shown(costs)}"
            )
        self._cost_of = least_cost if costs is True else costs or None
        self.places = Fresh() if places is None else places  # who runs the functions, and allocates their results
        for name, function in functions.items():
            setattr(self, name, self._make_counted(name, function))

    def _make_counted(self, name, function):
        count = self._every[name] = OpCount(describe_function(function))
        parameters = parameters_of(name)
        tables = {parameters.index(table) for table in signatures.TABLES.get(name, ())}

        def call(*args, **kwargs):
            self._counts.setdefault(name, count)
            if self._cost_of:  # before anything changes
                cost = self._cost_of(name, function, dict(zip(parameters, args, strict=False)) | kwargs)
            started = time.perf_counter()
            token = COUNTS.set(count.code_paths)
            try:
                run = self.places.run_op
                result = function(*args, **kwargs) if run is None else run(name, function, args, kwargs)
            finally:
                COUNTS.reset(token)
            count.seconds += time.perf_counter() - started
            count.calls += 1
            bytes_moved = bytes_moved_by(args, kwargs, result, tables)
            count.bytes += bytes_moved
            if self._cost_of:
                count.costs.append(cost or Cost(bytes_moved, 0))
            return result

        return call

    def counts(self) -> dict[str, OpCount]:
        """The ops that were called, in the order of their first calls."""
        return self._counts

    def counted(self) -> dict[str, Counter[str]]:
        """What each op has done so far: calls, bytes, and calls of each code path."""
        return {name: _counter_of(count) for name, count in self._counts.items()}

    def counts_since(self, before: dict[str, Counter[str]]) -> dict[str, Counter[str]]:
        """What each op that was called has done since `before`, which `counted` told."""
        since = {name: _counter_of(count) - before.get(name, Counter()) for name, count in self._counts.items()}
        return {name: done for name, done in since.items() if done["calls"]}

    def count_again(self, held: dict[str, Counter[str]]) -> None:
        """Counts the calls of a graph once more, which was launched. Their seconds are in those of the steps."""
        for name, done in held.items():
            count = self._counts.setdefault(name, self._every[name])
            for what, number in done.items():
                if what == "calls":
                    count.calls += number
                elif what == "bytes":
                    count.bytes += number
                else:
                    count.code_paths[what] = count.code_paths.get(what, 0) + number


@functools.cache
def parameters_of(op: str) -> list[str]:
    """What an op's arguments are called."""
    return list(inspect.signature(getattr(signatures, op)).parameters)


def _counter_of(count: OpCount) -> Counter[str]:
    return Counter(count.code_paths) + Counter(calls=count.calls, bytes=count.bytes)


def least_cost(op: str, function: Any, given: dict[str, Any]) -> Cost | None:
    """What the catalog says of a call, whatever its implementation; None of an op that is no row there."""
    if op not in COST_OF:
        return None
    cost, wanted = COST_OF[op]
    return cost(**{p: _fetched_integers(given[p]) for p in wanted if p in given})


def _fetched_integers(given: Any) -> Any:
    """Lengths, parents and places as the host can count them; of all else a cost model asks for shapes alone."""
    return fetch(given) if getattr(getattr(given, "dtype", None), "kind", "f") in "iub" else given


def bytes_moved_by(args, kwargs, result, tables: set[int]) -> int:
    """Bytes of the arrays handed in and returned, each once; of a table, only as much as came out of it.

    A table that is itself the result is changed here and there: what else was handed in says how much is read.
    """
    arrays: dict[int, int] = {}
    _note_arrays([a for i, a in enumerate(args) if i not in tables] if tables else args, arrays)
    if kwargs:
        _note_arrays(kwargs.values(), arrays)
    if not tables:
        _note_arrays((result,), arrays)
    elif not any(args[i] is result for i in tables):
        _note_arrays((result,), arrays)
        rows = result[0] if isinstance(result, tuple) else result
        return sum(arrays.values()) + len(tables) * getattr(rows, "nbytes", 0)
    return sum(arrays.values())


PLAIN = frozenset((type(None), bool, int, float, str, np.float32))  # what most arguments are that are no arrays


def _note_arrays(values: Iterable[Any], arrays: dict[int, int]) -> None:
    """Notes the bytes of each array by its identity; of a weight, what the product reads, which is not the bias.

    It runs in every call of an op, so types that are known come first: looking for attributes takes longer.
    """
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            if value.ndim > 0:
                arrays[id(value)] = value.nbytes
        elif kind in PLAIN:
            continue
        elif kind is signatures.Weight:
            _note_arrays((value.data, value.scale), arrays)
        elif kind is tuple:
            _note_arrays(value, arrays)
        elif hasattr(value, "nbytes") and getattr(value, "ndim", 0) > 0:  # of another library, or of ours
            arrays[id(value)] = value.nbytes
        elif isinstance(value, tuple):
            _note_arrays(value, arrays)
        elif hasattr(value, "__dataclass_fields__"):
            _note_arrays(vars(value).values(), arrays)


def _ordered_paths(paths: Iterable[str]) -> list[str]:
    """Code paths in a fixed order; then those that a processor names, such as "vnni512"."""
    return [*(path for path in CODE_PATHS if path in paths), *(path for path in paths if path not in CODE_PATHS)]


def bytes_held_by(arrays: Iterable[np.ndarray]) -> int:
    """Bytes kept alive by these arrays: each distinct base array once, whole, however small the view into it."""
    bases = {}
    for array in arrays:
        base = base_array(array)
        bases[id(base)] = base.nbytes
    return sum(bases.values())


def base_array(array: np.ndarray) -> np.ndarray:
    """The array that a view looks into; an array that is no view is its own."""
    while isinstance(array.base, type(array)):
        array = array.base
    return array


@dataclass
class ConstraintCounts:
    """What a constraint did in a generation: of every row of every step that went on, the tokens it ruled out."""

    masked: int = 0  # tokens that do not continue a match
    of: int = 0  # tokens looked at
    too_long: int = 0  # tokens that do, and behind which no end that fits was found

    def __str__(self) -> str:
        share = 100 * self.masked / max(self.of, 1)
        late = f"; {self.too_long:,} others left too few tokens for an end" if self.too_long else ""
        return f"{self.masked:,} of {counted(self.of, 'token')} masked ({share:.1f} %){late}"


@dataclass
class DraftCounts:
    """What became of the drafts of a text, or of all texts of a generation."""

    drafted: int = 0  # tokens that were guessed
    accepted: int = 0  # of these, in a text
    steps: int = 0  # each adds one token behind those that it accepts, unless the text ends in them

    def add(self, drafted: int, accepted: int, steps: int = 1) -> None:
        self.drafted, self.accepted, self.steps = self.drafted + drafted, self.accepted + accepted, self.steps + steps

    @classmethod
    def sum(cls, each: Iterable[DraftCounts]) -> DraftCounts:
        """The counts of several texts together."""
        total = cls()
        for counts in each:
            total.add(counts.drafted, counts.accepted, counts.steps)
        return total

    def __str__(self) -> str:
        share = 100 * self.accepted / max(self.drafted, 1)
        return f"{self.accepted:,} of {counted(self.drafted, 'drafted token')} accepted ({share:.1f} %)"


@dataclass
class Receipt:
    """What one call of `generate` did."""

    plan: str
    chosen: str = ""  # of the plan auto: what it came to, and why
    dtype: str = ""  # as given to `load`
    ops: dict[str, OpCount] = field(default_factory=dict)
    cache: str = ""
    cache_peak_bytes: int = 0  # held between steps, at most; what a step allocates on the way is not in it
    arena_bytes: int = 0  # that steps keep their intermediates in; without an arena they are not counted
    arena_placed_by: str = ""  # the code that found their offsets
    prompt_tokens: int = 0
    reused_tokens: int = 0  # of prompts, that were not read: a scheduler had their keys and values in pages
    new_tokens: int = 0  # in the hypotheses returned
    steps: int = 0
    rows: int = 0  # that the steps computed, the prefill's not counted
    graphs: GraphCounts = field(default_factory=GraphCounts)
    # prompts (tokens of them), code (loaded by auto), encoder, prefill, steps: the forward passes; search: all else
    seconds: dict[str, float] = field(default_factory=dict)
    constraint: ConstraintCounts | None = None  # tokens that regex or json_schema masked
    drafts: DraftCounts | None = None  # of all texts, where tokens were drafted; its steps are theirs, added up
    drafted_by: str = ""  # prompt lookup, or the model that did
    search: dict[str, Any] = field(default_factory=dict)  # the options that are not at their defaults
    compile_seconds: float = 0.0  # of these, compiling for the first time on this machine
    launches: dict[str, int] = field(default_factory=dict)  # of CUDA kernels, with where they ran
    loading: Loading = field(default_factory=Loading)  # of kernels, at their first launch; a part of the stages

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        stages = ", ".join(f"{stage} {s:.3f} s" for stage, s in self.seconds.items())
        reused = f" ({self.reused_tokens} found in pages)" if self.reused_tokens else ""
        lines = [
            f"plan {self.plan}; dtype {self.dtype}; cache {self.cache}, at most {self.cache_peak_bytes:,} bytes"
            + (f"; arena of {self.arena_bytes:,} bytes, by {self.arena_placed_by}" if self.arena_bytes else ""),
            f"search: {', '.join(f'{name} {value}' for name, value in self.search.items())}",
            f"{counted(self.prompt_tokens, 'prompt token')}{reused}, {counted(self.new_tokens, 'new token')}, "
            f"{counted(self.steps, 'step')} ({counted(self.rows, 'row')}); {stages}",
            f"{'op':<17} {'calls':>7} {'seconds':>9} {'MB':>10}  implementation",
        ]
        for name, c in self.ops.items():
            paths = ", ".join(f"{c.code_paths[path]:,} {path}" for path in _ordered_paths(c.code_paths))
            ran = f"{c.implementation}: {paths}" if paths else c.implementation
            lines.append(f"{name:<17} {c.calls:>7} {c.seconds:>9.3f} {c.bytes / 1e6:>10.1f}  {ran}")
        if self.constraint:
            lines.append(f"{'regex' if 'regex' in self.search else 'json_schema'}: {self.constraint}")
        if self.drafts:
            lines.append(f"{self.drafts}, by {self.drafted_by}")
        if (g := self.graphs).launches:
            lines.append(
                f"{g.launches:,} launches of parts of steps ({g.captured} captured, {g.reused} kept from earlier "
                "calls): the calls in them are counted above"
            )
        if g.looks:
            lines.append(f"the host read the flags of {counted(self.steps, 'step')} in {counted(g.looks, 'read')}")
        if g.passes:
            lines.append(f"{g.passes} of encoder and prefill launched whole, for texts of these lengths came before")
        if g.why_not:
            lines.append(f"{'other parts of steps' if g.launches else 'steps'} were not captured: {g.why_not}")
        if self.chosen:
            lines.append(self.chosen)
        if self.compile_seconds:
            lines.append(f"{self.compile_seconds:.3f} s of it compiled code, which is kept for later runs")
        if self.loading.kernels:
            lines.append(f"kernels: {self.loading}")
        lines += [f"{kernel}: {count:,} launches" for kernel, count in self.launches.items()]
        return "\n".join(lines)
