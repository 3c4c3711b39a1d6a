"""Compiled code for the CPU: what a generation needs, whether it is on disk, and how long compiling took.

Numba compiles a function for the types of its arguments, and keeps what it makes on disk. The types do not depend on
shapes: `TYPES` lists all that a generation under `fast` hands over, in float32, and `ASKED_FOR` what some other choices
do (tests/integration/test_compiled.py checks both). So it is known before a generation begins whether it would have
to wait for the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..cache.queries import rows_per_token
from ..device.low_precision import DYNAMIC, arrays_in_weights
from ..device.weight_blocks import BLOCKS
from ..options.options import Options
from ..plan import import_backend_file
from ..runtime.arena import Extent
from .candidates import option_against_hars

# A letter for what is in it: f, d floats of 32 and 64 bits, i int64, u uint64, w uint32, h the bits of a float16, q
# int8, o uint8, b bool. A number behind it: an array of this many axes; with "r", one that may only be read, as all
# weights are, with "a" such a one whose numbers need not touch, with "s" one to write whose numbers need not. A star:
# the arguments of a function that runs in tasks (cpu/common/tasks.py), which gets them in one tuple.
WORKERS = {"common.thread_pool._work": ["i1 i"]}
GRAPH = {"common.thread_pool._launch_all": ["i1 i i i i1"], "common.graph._count": ["*i1"]}  # of a captured step
ATTENTION = {"split._attend_head": ["*f3 f4 f4 i1 f4 f4 i1 i1 f3r i1r i f f3"]} | WORKERS
BEST, BEST_OF_SUMS = "f2 f2 i2", "d2 d2 i2"  # a beam search that samples adds its noise in float64
# Of the catalog, that an encoder alone calls.
ENCODER_ROWS = ("embedding", "norm", "linear", "heads", "activation", "prefill")
TYPES: dict[str, dict[str, list[str]]] = {
    "activation": {"activation._bias_activation": ["*f2 f1r f1r i f2 i"]},
    "append": {"append._append_kv": ["*f2 f1r f4 f4 i1 f3"]} | GRAPH,
    "beam_update": {
        "beam_update._update_beams": ["f2 i2 i2 f2 f2 i2 b1 i1 i1 i1 f1 i1 f b b i b b b b i2 i2 i2 b2 i2 i1 i1"]
    },
    "candidates": {"candidates._top_candidates": [BEST, BEST_OF_SUMS]},
    "argmax": {"argmax._log_probabilities": ["f2 i1 f1"]},
    "sample": {"sample._sample_tokens": ["f2 u2 u1 u u i1"]},
    "embedding": {"embedding._embed_norm": ["*i1 i1 f2r f2r f f1r f1r f f2 f2"]},
    "extend": {"extend._extend_sequences": ["i2 i1 f1 b1 i1 d1 i1 b1 i1 i1 i1 i1 b i1"]},
    "finished": {"finished._store_finished": ["i3 i3 i2 i2 i2 i1"]},
    "heads": {"heads._split_heads": ["*f2 f1r f3 f3 f3 i"]},
    "hars": {"hars._hars_candidates": ["f2 f2 f2 i2 i2"]},
    "rotation": {"rotation._rotate_heads": ["*f2 f1r i1 f2r i f2"]},
    "ngram": {"ngram._ban_in_rows": ["f2 i2 i1 i"]},
    "norm": {"norm._residual_norm": ["*f2 f2 f1r f1r f1r f f2 f2 i"]},
    "sequences": {"sequences._update_sequences": ["i3 i2 i2 i1"]},
    "reorder": {"common.follow_parents.follow_parents": ["w4 i1 i"]},
    "shared": ATTENTION,
    "softmax": {"softmax._log_softmax": ["f2 f2 i1"]},
    "split": ATTENTION,
    "flags": {"flags._step_flags": ["b1 i1 i2 i1 i1"]},
    "prefill": {
        "prefill._attend_queries": ["*f3 f3 f3 i2 f3r i1r i f2 f i i"],
        "prefill._to_weights": ["f3 f b i i"],
    }
    | WORKERS,
    "top_k": {"candidates._top_candidates": [BEST], "top_k._rule_out_below": ["f2 f2"]},
    "top_p": {"top_p._top_p_filter": ["f2 d i"]},
}
PRODUCTS = {  # "linear", by what the weights are stored as
    "float32": {"common.skinny_gemm._multiply_outputs": ["*f2 f2r f1r b f2 i"],
                "common.panel_gemm._multiply_floats": ["*f2 f3r f1r f2 b b i i i"]} | WORKERS,
    "float16": {"common.skinny_gemm._multiply_outputs": ["*f2 h2r f1r b f2 i"],
                "common.low_precision._cast": ["h2r f2"]} | WORKERS,
    "int8": {"common.skinny_gemm._multiply_outputs": ["*f2 q2r f1r b f2 i"],
             "common.low_precision._cast": ["q2r f2"]} | WORKERS,
}  # fmt: skip
WHOLE_NUMBERS = {
    "common.panel_gemm._round_rows": ["*f2 f o2 f1"],
    "common.panel_gemm._round_and_multiply_int8": ["i i1 f2 f b o2 q4r f1 *f1r f2 i b b i i i"],
}
PRODUCTS |= dict.fromkeys(DYNAMIC, PRODUCTS["int8"] | WHOLE_NUMBERS)
OF_BLOCKS = ["*f2 o2r h2r f2 b i i"]
PRODUCTS |= {"int4": {"common.block_gemm._multiply_int4": OF_BLOCKS} | WORKERS,
             "int8_blocks": {"common.block_gemm._multiply_int8": OF_BLOCKS} | WORKERS}  # fmt: skip
ASKED_FOR: dict[str, dict[str, list[str]]] = {
    "cache_dtype=float16": {"split._attend_head": ["*f3 h4 h4 i1 h4 h4 i1 i1 f3r i1r i f f3"],
                            "common.follow_parents.follow_parents": ["h4 i1 i"]},
    "cache=indirect": {"indirect._scores": ["f3 f4 i2 f f3s"], "indirect._add_sums": ["f3s f4 i2 f3"],
                        "common.follow_parents.follow_parents": ["u4 i1 i"]},
    "cache=indirect,cache_dtype=float16": {"indirect._scores": ["f3 h4 i2 f f3s"],
                                           "indirect._add_sums": ["f3s h4 i2 f3"],
                                           "common.low_precision._cast": ["h2 f2"]},
    "cache=paged": {"paged._attend_head": ["*f3 f4 f4 i2 i1 i1 f3r i1r i f f3"],
                    "paged_append._append": ["*f2 f1r f4 f4 i2 i1 f3"]} | GRAPH,
    "cache=paged,cache_dtype=float16": {"paged._attend_head": ["*f3 h4 h4 i2 i1 i1 f3r i1r i f f3"]},
    "epilogue=cpu": {"epilogue._finish_sums": ["f2 f1r i b f2"]},
}  # fmt: skip
LETTERS = {"f": "float32", "d": "float64", "i": "int64", "u": "uint64", "w": "uint32", "h": "uint16", "q": "int8",
           "o": "uint8", "b": "boolean"}  # fmt: skip
# Loading takes about half a second, Numba's import included, and what it saves is seldom more than half of NumPy's
# time. A product of one row takes as long as one of about 16, or of float16 weights, which NumPy casts slowly, of 100;
# with those counted, NumPy's time for this many numbers of weights times rows was two seconds on two cores.
WORTH_LOADING = 1.5e11
AS_LONG_AS_ROWS = {"float16": 100} | dict.fromkeys((*DYNAMIC, *BLOCKS), 100)


def load_or_reason_for_numpy(weights: Any, dtype: str, work: float, rows: Iterable[str]) -> str | None:
    """Why the plan `auto` runs NumPy's code; None if the compiled code of these rows is there and pays.

    Then it is loaded. Nothing is ever compiled. work: see `work_of_search` and `work_of_encoder`.
    """
    if dtype not in PRODUCTS:
        return f"code is compiled for float32, and this is {dtype}"
    if work < WORTH_LOADING:
        return "loading compiled code would take longer than it saves"
    if not all(a.flags.c_contiguous and a.flags.aligned for a in arrays_in_weights(weights)):
        return "these weights lie in an order that code is not compiled for"
    try:
        missing = rows_without_compiled_code(rows, dtype)
    except (ImportError, RuntimeError, OSError) as error:  # Numba or its library is not there, or finds no folder
        return f"compiled code cannot be loaded: {error}"
    if missing:
        return f"compiled code is not on disk for {', '.join(missing)} (minidecode precompile makes all of it, once)"
    return None


def work_of_search(parameters: int, weights: Any, dtype: str, extent: Extent, options: Options) -> float:
    """Numbers of the weights (this many are the parameters), times rows that they are multiplied with."""
    rows = extent.sentences * max(options.num_beams, options.num_return_sequences) * rows_per_token(weights)
    prompts = extent.sentences * (extent.prompt_tokens + extent.source_tokens)
    return parameters * (prompts + extent.new_tokens * max(rows, AS_LONG_AS_ROWS.get(dtype, 16)))


def work_of_encoder(parameters: int, vocab_size: int, width: int, tokens: int) -> float:
    """Numbers of an encoder's weights, times the tokens that it reads: its tables are not multiplied."""
    return (parameters - vocab_size * width) * tokens


def rows_of_generation(options: Options, has_encoder: bool, is_rotary: bool = False) -> list[str]:
    """The rows of the catalog whose compiled code a generation under `fast` may call, and a choice of ASKED_FOR."""
    rows = ["embedding", "norm", "linear", "heads", "activation", "prefill"]
    rows += ["cache=paged"] if options.tokens_ahead else ["append", "split"]
    if has_encoder:
        rows.append("shared")
    if is_rotary:
        rows.append("rotation")
    if options.no_repeat_ngram_size:
        rows.append("ngram")
    if options.num_beams > 1:
        rows += ["candidates", "beam_update", "finished", "sequences", "flags", "reorder", "softmax"]
        if not option_against_hars(options):
            rows.append("hars")
    else:
        rows += ["extend", "softmax", *([] if options.do_sample else ["argmax"])]
    if options.do_sample:
        rows += ["sample", "top_k", "top_p"]
        if options.min_p is not None or options.top_h is not None or options.epsilon_cutoff or options.eta_cutoff:
            rows.append("candidates")  # filters begin with the likeliest tokens
    return rows


def rows_without_compiled_code(rows: Iterable[str], dtype: str) -> list[str]:
    """The rows whose code would have to be compiled; that of all others is loaded."""
    return [
        row
        for row in rows
        if not all(
            _can_load(_compiled_function(name), parse_types(t))
            for name, types in _functions_of(row, dtype)
            for t in types
        )
    ]


def precompile(progress: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Compiles all that `fast` calls, or a choice beside it, for weights of every dtype -> how many functions it made.

    What is on disk is loaded. progress: called with (functions done, of how many).
    """
    made, functions = 0, all_functions()
    for done, (name, types) in enumerate(functions):
        progress(done, len(functions))
        if not _can_load(_compiled_function(name), parse_types(types)):
            _compiled_function(name).compile(parse_types(types))
            made += 1
    progress(len(functions), len(functions))
    return made


def count_compiled() -> tuple[int, int]:
    """(functions whose code need not be compiled any more, those that there are), each for one kind of arguments."""
    functions = all_functions()
    return sum(_can_load(_compiled_function(name), parse_types(types)) for name, types in functions), len(functions)


def all_functions() -> list[tuple[str, str]]:
    """Each function that `fast`, or a choice beside it, may call, with the types of its arguments."""
    rows = [*TYPES.values(), *PRODUCTS.values(), *ASKED_FOR.values()]
    return list(dict.fromkeys((name, types) for row in rows for name, each in row.items() for types in each))


def _functions_of(row: str, dtype: str) -> Iterable[tuple[str, list[str]]]:
    return (PRODUCTS[dtype] if row == "linear" else (TYPES | ASKED_FOR)[row]).items()


def _compiled_function(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return vars(import_backend_file("cpu", module))[function]


def parse_types(text: str) -> tuple:
    """Numba's types of a function's arguments, as `TYPES` writes them."""
    from numba import types

    if "*" in text:
        before, rest = text.split("*")
        return *parse_types(before or "i i1"), types.BaseTuple.from_types(parse_types(rest))  # tasks, and the table
    kinds = []
    for word in text.split():
        kind = getattr(types, LETTERS[word[0]])
        if len(word) > 1:
            kind = types.Array(kind, int(word[1]), "A" if word[-1] in "as" else "C", readonly=word[-1] in "ra")
        kinds.append(kind)
    return tuple(kinds)


def _can_load(function: Any, types: tuple) -> bool:
    """Whether a function's code for these types is in this process, or was on disk and is now.

    What Numba does at a call, without its last resort. A broken file is one that is not there.
    """
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        if types in function.overloads:
            return True
        try:
            code = function._cache.load_overload(types, function.targetctx)
        except Exception:
            return False
        if code is None:
            return False
        function.targetctx.insert_user_function(code.entry_point, code.fndesc, [code.library])
        function.add_overload(code)
        return True


@contextmanager
def call_when_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Calls `tell` when the compiler starts, if it does: once while this is open."""
    from numba.core import event

    class Announcer(event.Listener):
        has_announced = False

        def on_start(self, event: Any) -> None:
            if not self.has_announced:
                self.has_announced = True
                tell()

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Announcer()):
        yield


@contextmanager
def timing_compilations(is_compiled: bool) -> Iterator[list[float]]:
    """Yields a list that gets the seconds of each compilation while it is open. is_compiled: whether any op may be.

    Two generations at once see each other's compilations: Numba compiles one function at a time, for all threads.
    """
    seconds: list[float] = []
    if not is_compiled:
        yield seconds
        return
    from numba.core import event

    with event.install_timer("numba:compile", seconds.append):
        yield seconds
