"""compute-sanitizer's four tools over our kernels, and over the 128 kernels of which the truth is known.

    python benchmarks/compute_sanitizer.py --out benchmarks/results/compute-sanitizer-DEVICE.json \\
        --readme benchmarks/README.md

Needs a GPU, CuPy and compute-sanitizer, which the CUDA toolkit has (or pip install nvidia-cuda-sanitizer-api).

- signatures: calls of ops that launch each kernel for the types of its signatures, on the inputs that conformance
  plants. CuPy's pool is off: each array is an allocation of its own, so that what lies beyond it is nobody's.
- suite: the labelled kernels of kernel_suite.py. Who finds which mistake, the emulator or a tool; who is wrong about
  right kernels.

The work goes in lots. The four tools run a lot at the same time, each in a process; what ends its process or takes too
long is noted, and the rest goes on in a new one. Takes about four minutes (--minutes), and the same command again goes
on where the first one ended. It is the part compute_sanitizer of gpu.py, too.

Without a GPU, --device emulator runs some of the same calls in the emulator, under any program that is named --tool.
Prints the tables, and writes all that was found to --out.
"""

from __future__ import annotations

import argparse
import copy
import functools
import importlib
import inspect
import json
import os
import pkgutil
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from flags import file_to_write, positive_number
from gpu_timing import Record
from readme import with_marks, write_between_markers

import minidecode as md
from minidecode import cuda as kernels_package
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.check import OnDevice, drop_unused_bias
from minidecode.conformance.rows import row_module
from minidecode.cuda import (
    activation,
    argmax,
    candidates,
    cross_kv,
    el,
    embedding,
    heads,
    indirect,
    linear,
    move,
    norm,
    prefill,
    shared,
    softmax,
    split,
)
from minidecode.device.arrays import Memories, address_of, copy_to_device, view_at_offset
from minidecode.device.low_precision import stored_weight
from minidecode.device.seen_kernels import dry_launches, seen_kernels
from minidecode.ops import Heads, Norm, Weight
from minidecode.reference.activation import ACTIVATIONS

SUITE = Path(__file__).parents[1] / "tests" / "emulator"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
OPTIONS = ("--launch-timeout", "120", "--demangle", "no", "--show-backtrace", "no", "--print-limit", "0",
           "--check-exit-code", "no")  # fmt: skip
OPTIONS_OF = {"memcheck": ("--report-api-errors", "no")}
PORT = 49_152  # of the first tool; they run at the same time
LOT = {"signatures": 45, "suite": 32}  # calls of one process
PATIENCE = {"signatures": 30, "suite": 8}  # seconds of a call, its compiling included
FIRST = 40  # seconds of a process's first call: it makes the context
SECONDS = 100  # of a lot
HANGING = ("divergence", "atomics")  # kinds of the suite whose mistakes may never end: they come last
QUICK_ROWS, QUICK_KERNELS = ("ngram", "gather"), 4  # of quick runs
PLAN = "the calls"  # a figure of the part
NO_TIME, NO_CALL = "no time was left", "the tool made no call"
NOT_BEGUN = (NO_TIME, NO_CALL)

# ---- what is launched ------------------------------------------------------------------------------------------------


def special_calls() -> dict[str, Callable[[str], None]]:
    """Name -> a call on a device, for kernels that no planted input launches: they want wide heads, whole fours, many
    rows or columns, or other types.
    """
    rng = np.random.default_rng(0)

    def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
        return rng.standard_normal(shape, np.float32).astype(dtype)

    return {**calls_of_products(normal), **calls_of_attention(normal), **calls_of_prefill(normal),
            **calls_of_rows(normal), **calls_over_a_vocabulary(normal)}  # fmt: skip


def on(function: Callable, *arguments: Any) -> Callable[[str], None]:
    return lambda device: function(*copy_to_device(device, arguments))


def calls_of_products(normal: Callable) -> dict[str, Callable[[str], None]]:
    """Few rows by each kernel with constants; many rows by the library, which bytes and blocks are cast for."""
    calls = {}
    for stored, made in (*linear.FEW_ROWS.items(), *linear.FEW_BITS.items()):
        for m in made:
            inputs, name = 2 * max(m.multiple, m.inputs), m.kernel.py_func.__name__
            weight = stored_weight(stored, Weight(normal(2 * m.outputs, inputs), layout="oi"))
            calls[name] = on(functools.partial(linear.launch_few_rows, m), normal(m.rows, inputs), weight)
    for stored in ("int8", "int8_blocks", "int4"):
        weight = stored_weight(stored, Weight(normal(8, 64), layout="oi"))
        calls[f"multiply_by_library, {stored}"] = on(linear.multiply_by_library, normal(3, 64), weight)
    for dtype in ("float32", "float16"):
        weight, cut = Weight(normal(2 * 2 * 8, 8), layout="oi", bias=normal(2 * 2 * 8)), Heads(2, 2, 4, 4, 0.5)
        for project in (cross_kv.project_cross_kv_v2, cross_kv.project_cross_kv):
            calls[f"{project.__name__}, {dtype}"] = on(project, normal(5, 8), weight, cut, np.dtype(dtype))
    return calls


def calls_of_attention(normal: Callable) -> dict[str, Callable[[str], None]]:
    """Steps over caches: heads that 128-bit loads take, long caches that are cut into ranges, a table, EL in halves."""
    calls = {}
    for K, W, dtype in ((64, 1, "float16"), (64, 4, "float16"), (128, 4, "float16"), (64, 4, "float32")):
        cache = [normal(2, 2, 70, K, dtype=dtype) for _ in range(2)]
        arguments = normal(2 * W, 2, K), *cache, np.array([0, 3]), K**-0.5
        calls[f"attend_shared, K = {K}, beam {W}, {dtype}"] = on(shared.attend_shared, *arguments)
    prompt = *(normal(1, 1, 600, 8, dtype="float16") for _ in range(2)), np.array([3])
    own = *(normal(2, 1, 5, 8, dtype="float16") for _ in range(2)), np.array([0, 1]), np.array([5, 4])
    calls["attend_shared_v4, 600 positions"] = on(shared.attend_shared_v4, normal(2, 1, 8), *prompt, 0.5)
    calls["attend_split_v4, 600 + 5 positions"] = on(split.attend_split_v4, normal(2, 1, 8), *prompt, *own, 0.5)
    prompt = *(normal(1, 1, 9, 64, dtype="float16") for _ in range(2)), np.array([3])
    own = *(normal(4, 1, 5, 64, dtype="float16") for _ in range(2)), np.array([[0, 1, 2, 3, 0]] * 4)
    bounds = np.array([0, 1, 0, 0]), np.array([5, 4, 5, 1])
    calls["attend_indirect, beam 4"] = on(indirect.attend_indirect, normal(4, 1, 64), *prompt, *own, *bounds, 0.125)
    of_layer = normal(1, 8, 16), normal(1, 8), normal(1, 8, 16), normal(1, 8), 0.5
    hidden = normal(1, 9, 16, dtype="float16"), np.array([2])
    in_halves = functools.partial(el.attend_el_v3, half=True)
    calls["attend_el_v3, in halves"] = on(in_halves, normal(2, 2, 8), *hidden, *of_layer)
    return calls


def calls_of_prefill(normal: Callable) -> dict[str, Callable[[str], None]]:
    """A softmax in registers for each length of rows, and one in passes; halves that 128-bit loads take."""
    calls = {}
    for dtype in ("float32", "float16"):
        for M in (300, 1_100, 4_200):
            arrays = *(normal(n, 1, 8, dtype=dtype) for n in (2, M, M)), np.array([0, 2]), np.array([0, M])
            calls[f"attend_prefill_v3, {M} keys, {dtype}"] = on(prefill.attend_prefill_v3, *arrays, 0.5, False)
    arrays = *(normal(4, 1, 8, dtype="float16") for _ in range(3)), np.array([0, 4]), np.array([0, 4])
    calls["attend_prefill, K = 8, float16"] = on(prefill.attend_prefill, *arrays, 0.5, True)
    return calls


def calls_of_rows(normal: Callable) -> dict[str, Callable[[str], None]]:
    """Activations, norms, embeddings and moves: every code, width and type."""
    calls = {}
    for name in ACTIVATIONS:
        calls[f"bias_activation, {name}"] = on(
            lambda f_RX, bias_X, name=name: activation.bias_activation(f_RX, bias_X, name), normal(5, 8), normal(8)
        )
    for R, D in ((3, 8), (3, 1024), (3, 2048), (norm.MANY, 8)):
        of_norm = Norm(normal(D), normal(D), 1e-5)
        calls[f"residual_norm, {R} x {D}"] = on(norm.residual_norm, normal(R, D), normal(R, D), normal(D), of_norm)
        tables = normal(9, D), normal(5, D), 1.0, of_norm
        calls[f"embed_norm, {R} x {D}"] = on(embedding.embed_norm, np.arange(R) % 9, np.arange(R) % 5, *tables)
    for width, dtype in ((8, "float64"), (3, "float32"), (3, "float16"), (3, "int8")):
        rows = normal(4, width, dtype=dtype)
        calls[f"gather_rows, {width} of {dtype}"] = on(move.gather_rows, rows, np.array([3, 0, 0]))
    for dtype in ("float32", "float16"):
        new, whole = normal(3, 2, 5), normal(3, 2, 4, 5, dtype=dtype)
        calls[f"concat_step, {dtype}"] = on(move.concat_step, whole, new)
    for K, dtype in ((4, "float32"), (5, "float32"), (5, "float16")):
        rows = normal(3, 2, K, dtype=dtype)
        calls[f"pad_left, K = {K}, {dtype}"] = on(move.pad_left, rows, np.array([0, 1, 3]))
    for cut in (heads.split_heads_v1, heads.split_heads_v2, heads.split_heads):
        into_halves = functools.partial(cut, dtype=np.float16)
        calls[f"{cut.__name__}, float16"] = on(into_halves, normal(3, 24), normal(24), Heads(2, 2, 4, 4, 0.5))
    return calls


def calls_over_a_vocabulary(normal: Callable) -> dict[str, Callable[[str], None]]:
    """Rows that several blocks share, scores that are the logits, and scores of samples, which are float64."""
    calls = {
        "token_logprobs": on(softmax.token_logprobs, normal(2, 77), np.array([1, 76])),
        "log_softmax, 2 x 9000": on(softmax.log_softmax, normal(2, 9_000)),
        "argmax_tokens of logits": on(lambda logits_RV: argmax.argmax_tokens(logits_RV, logits_RV), normal(2, 77)),
    }
    for version in ("v1", "v2", "v3"):
        of_samples = getattr(candidates, f"top_candidates_{version}")
        calls[f"top_candidates_{version}, float64"] = on(of_samples, normal(2, 300, dtype="float64"), 4)
    calls["top_candidates, float64"] = on(candidates.top_candidates, normal(2, 300, dtype="float64"), 4)
    return calls


def planned(rows: tuple[str, ...] | None) -> dict:
    """Calls that launch each kernel for new types, and the declared signatures that none of them launches.

    Found without a GPU: launches are noted and not run. A call is [row, version, input], or its name alone.
    """
    calls: list[Any] = []
    seen: dict[tuple[Any, tuple], None] = {}

    def note(call: Any, run: Callable[[], Any]) -> None:
        with dry_launches(), seen_kernels() as launched, suppress(Exception), np.errstate(all="ignore"):
            run()  # its arrays hold nothing: after the last launch it may well raise
        if not launched.keys() <= seen.keys():
            calls.append(call)
            seen.update(launched)

    for name, row in CATALOG.items():
        if rows is None or name in rows:
            planted = row_module(name).planted_cases()
            for label in filter(lambda label: label.startswith("cuda"), implementations(row)):
                for i in range(len(planted)):
                    note([name, label, i], functools.partial(run_planted, name, label, i, "emulator"))
    if rows is None:
        for name, call in special_calls().items():
            note(name, functools.partial(call, "emulator"))
    declared = [(kernel, types) for kernel, signatures in declared_signatures() for types in signatures]
    missing = [kernel for kernel, types in declared if not any(k is kernel and fits(t, types) for k, t in seen)]
    return {"calls": calls, "signatures": len(declared), "launched": len(seen),
            "not launched": dict(Counter(kernel.py_func.__name__ for kernel in missing))}  # fmt: skip


def declared_signatures() -> list[tuple[Any, list[tuple]]]:
    """(kernel, its signatures) of all files of cuda/."""
    found = []
    for info in pkgutil.walk_packages(kernels_package.__path__, "minidecode.cuda."):
        found += getattr(importlib.import_module(info.name), "SIGNATURES", {}).items()
    return found


def fits(seen: tuple, declared: tuple) -> bool:
    """Whether a launch with these types is one of a signature: an array of any layout takes all."""

    def one(a: Any, b: Any) -> bool:
        if not hasattr(b, "layout"):
            return a == b
        return (a.dtype, a.ndim) == (b.dtype, b.ndim) and b.layout in ("A", a.layout) if hasattr(a, "layout") else False

    return len(seen) == len(declared) and all(map(one, seen, declared))


@functools.cache
def inputs_of(name: str) -> list[tuple]:
    return row_module(name).planted_cases()


def run_planted(name: str, label: str, i: int, device: str) -> None:
    """One version of an op on one planted input, on the device's arrays."""
    function = implementations(CATALOG[name])[label]
    arguments = copy.deepcopy(drop_unused_bias(function, inputs_of(name)[i]))
    if device == "emulator":
        OnDevice(function, device)(*arguments)
    else:  # results are not poisoned: initcheck is to see what nothing wrote
        function(*Memories(device).put_on_device(arguments))


def run_labelled(kernel: Any, device: str) -> None:
    """A kernel of the suite. What begins empty is allocated, and nothing is copied there."""
    arguments = kernel.arguments()
    if device == "emulator":
        md.emulate(kernel.kernel, **kernel.options)[kernel.launch](*arguments)
        return
    import cupy

    memories, fresh, there = Memories(device), {}, []
    names = inspect.signature(kernel.kernel.py_func).parameters
    for name, argument in zip(names, arguments, strict=True):
        if name not in kernel.options.get("empty", ()):
            there += memories.put_on_device((argument,))
            continue
        whole = argument if argument.base is None else argument.base
        place = fresh.setdefault(address_of(whole), cupy.empty(whole.nbytes, np.uint8))
        there.append(view_at_offset(place, address_of(argument) - address_of(whole), argument))
    kernel.kernel[kernel.launch](*there)


# ---- the process under a tool ----------------------------------------------------------------------------------------


def child(asked: dict) -> None:
    """Runs calls one by one, and notes in a file which began and which ended. An alarm ends a call that hangs."""
    device, first = asked["device"], True
    wait: Callable[[], None] = lambda: None  # noqa: E731
    if device == "cuda":
        import cupy

        cupy.cuda.set_allocator(None)  # the pool hides accesses behind an array
        wait = cupy.cuda.Device().synchronize
    runs = {json.dumps(call): run for call, run in runs_of(asked["set"], asked["calls"], device)}
    with open(asked["progress"], "a", encoding="utf-8", buffering=1) as progress:
        for call in asked["calls"]:
            print(json.dumps(["begins", call]), file=progress)
            if hasattr(signal, "alarm"):
                signal.alarm(FIRST if first else PATIENCE[asked["set"]])
            try:
                runs[json.dumps(call)]()
                wait()
            except Exception as error:
                print(json.dumps(["failed", call, f"{type(error).__name__}: {error}"[:150]]), file=progress)
                if "CUDA" in f"{error}" or "cuda" in f"{error}":
                    os._exit(1)  # no more work can be given to the device by this process
            else:
                print(json.dumps(["ended", call]), file=progress)
            first = False
    if hasattr(signal, "alarm"):
        signal.alarm(0)


def runs_of(which: str, calls: list[Any], device: str) -> list[tuple[Any, Callable[[], None]]]:
    if which == "suite":
        labelled = {kernel.name: kernel for kernel in suite()}
        return [(call, functools.partial(run_labelled, labelled[call], device)) for call in calls]
    special = special_calls() if any(isinstance(call, str) for call in calls) else {}
    return [
        (call, functools.partial(special[call], device) if isinstance(call, str)
         else functools.partial(run_planted, *call, device))
        for call in calls
    ]  # fmt: skip


def suite() -> list[Any]:
    """The labelled kernels; those that may hang come last."""
    if str(SUITE) not in sys.path:
        sys.path.append(str(SUITE))
    from labelled_kernels import KERNELS

    return sorted(KERNELS, key=lambda kernel: kernel.kind in HANGING and not kernel.is_right)


# ---- the tools -------------------------------------------------------------------------------------------------------

SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) ")
SYMBOL = re.compile(r"\b(?:in|at) (_Z[\w$.]+|\w+(?=\+0x))")
BARE_SYMBOL = re.compile(r"\bat 0x[0-9a-f]+ in (\w+)")
NO_FINDING = ("COMPUTE-SANITIZER", "Program hit", "Target application", "Internal Sanitizer Error", "Error: couldn't",
              "Error: process didn't", "LEAK SUMMARY")  # fmt: skip


def findings_in(log: str) -> tuple[dict[str, dict[str, int]], str | None]:
    """(kernel -> what a tool says of it -> how often; its summary, or None if it wrote none).

    A finding is a line that stands further left than the lines about it: which thread, which instruction, which kernel.
    """
    found: dict[str, Counter[str]] = {}
    message, summary = None, None
    for line in log.splitlines():
        if not line.startswith("="):
            continue
        text = line.lstrip("=").removeprefix(" ")
        if SUMMARY.search(text):
            summary = text.strip()
            message = None
        elif text and not text.startswith(" "):
            message = None if text.startswith(NO_FINDING) else in_general(text)
        if message and (symbol := SYMBOL.search(text) or BARE_SYMBOL.search(text)):
            found.setdefault(name_of(symbol[1]), Counter())[message] += 1
            message = None
    return {kernel: dict(counts) for kernel, counts in found.items()}, summary


def in_general(text: str) -> str:
    """A message without addresses, threads and numbers of hazards."""
    text = re.sub(r" (?:at|in) (?:0x[0-9a-f]+|_Z\S+|\S+\+0x\S+).*", "", text)
    return re.sub(r"\([\d,]+\)", "()", text).rstrip(" :.")[:100]


def name_of(symbol: str) -> str:
    """The function of a mangled name: the last of its parts, each of which its length stands before."""
    name, rest = symbol, symbol.removeprefix("_ZN").removeprefix("_Z")
    while symbol.startswith("_Z") and (digits := re.match(r"\d+", rest)):
        length, rest = int(digits[0]), rest[digits.end() :]
        name, rest = rest[:length], rest[length:]
    return name


def found_tool(given: str | None = None) -> str | None:
    """compute-sanitizer: as named, on PATH, in the CUDA toolkit, or from a Python package."""
    folders = [
        os.environ.get("CUDA_HOME", "/usr/local/cuda"),
        *(f"{p}/nvidia/{cu}" for p in sys.path for cu in ("cu13", "cu12")),
    ]
    places = (f"{folder}/bin/compute-sanitizer" for folder in folders)
    return given or shutil.which("compute-sanitizer") or next((p for p in places if os.access(p, os.X_OK)), None)


def run_lot(which: str, calls: list[Any], device: str, tool: str, seconds: float = SECONDS) -> dict[str, dict]:
    """Tool -> what it says of these calls, and which of them did not end, and why. All four at the same time."""
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        runs = [Tool(tool, number, which, calls, device, Path(folder), deadline) for number in range(len(TOOLS))]
        while not all([run.is_over() for run in runs]):
            time.sleep(0.02)
        of_tools = {name: run.result() for name, run in zip(TOOLS, runs, strict=True)}
    return {"calls": [as_text(call) for call in calls], **of_tools}


class Tool:
    """One tool over a lot: a process after the other, until each call has begun."""

    def __init__(
        self, program: str, number: int, which: str, calls: list[Any], device: str, folder: Path, deadline: float
    ):
        self._program, self._check_number, self._which, self._device = program, number, which, device
        self._folder, self._deadline, self._left = folder, deadline, list(calls)
        self._found: dict[str, Counter[str]] = {}
        self._ended, self._lost, self._summaries, self._processes = 0, {}, [], 0
        self._process: subprocess.Popen | None = None
        self._start()

    def _start(self) -> None:
        name = TOOLS[self._check_number]
        stem = self._folder / f"{name}-{self._processes}"
        self._progress, self._log = stem.with_suffix(".jsonl"), stem.with_suffix(".log")
        self._progress.write_text("", encoding="utf-8")
        asked = {"device": self._device, "set": self._which, "calls": self._left, "progress": str(self._progress)}
        ports = ("--port", str(PORT + 16 * self._check_number))
        command = [self._program, "--tool", name, "--log-file", str(self._log), *ports, *OPTIONS,
                   *OPTIONS_OF.get(name, ()), sys.executable, __file__, "--child", json.dumps(asked)]  # fmt: skip
        with stem.with_suffix(".out").open("w", encoding="utf-8") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        self._processes += 1

    def is_over(self) -> bool:
        """Whether all calls were made; starts the next process if one ended early."""
        if self._process is None:
            return True
        if self._process.poll() is None and time.monotonic() < self._deadline:
            return False
        is_late = self._process.poll() is None
        if is_late:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        made = self._read(is_late)
        self._process = None
        if self._left and made and time.monotonic() < self._deadline:
            self._start()
            return False
        for call in self._left:
            self._lost[as_text(call)] = NO_TIME if made else self._trouble()
        self._left = []
        return True

    def _read(self, is_late: bool) -> int:
        """Takes in what the process wrote -> how many calls it began."""
        lines = [json.loads(line) for line in self._progress.read_text(encoding="utf-8").splitlines()]
        begun = [call for what, call, *_ in lines if what == "begins"]
        over = {as_text(call): rest for what, call, *rest in lines if what != "begins"}
        for call in begun:
            why = over.get(as_text(call), [NO_TIME if is_late else "did not end"])
            if why:
                self._lost[as_text(call)] = why[0]
            else:
                self._ended += 1
        self._left = self._left[len(begun) :]
        text = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        found, summary = findings_in(text)
        for kernel, counts in found.items():
            self._found.setdefault(kernel, Counter()).update(counts)
        self._summaries.append(summary)
        return len(begun)

    def _trouble(self) -> str:
        """Why a process began no call: what it printed last, and the tool in its log."""
        files = [path for path in (self._log, self._log.with_suffix(".out")) if path.exists()]
        lines = [line.strip(" =") for path in files for line in path.read_text("utf-8", errors="replace").splitlines()]
        said = [line for line in lines if line and line != "COMPUTE-SANITIZER"]
        return f"{NO_CALL}: {'; '.join(said[-2:])[:160] if said else 'it printed nothing'}"

    def result(self) -> dict:
        return {"ended": self._ended, "lost": self._lost, "processes": self._processes,
                "summaries": self._summaries, "found": {k: dict(c) for k, c in self._found.items()}}  # fmt: skip


def as_text(call: Any) -> str:
    return call if isinstance(call, str) else " ".join(map(str, call))


def run(record: Record) -> None:
    """The part of gpu.py."""
    tool = found_tool(os.environ.get("COMPUTE_SANITIZER"))
    if tool is None:
        record["compute-sanitizer"] = "not found: it comes with the CUDA toolkit"
        return
    record.ask(PLAN, lambda: planned(QUICK_ROWS if record.quick else None))
    names = [kernel.name for kernel in suite()]
    lots = {"signatures": record.figures.get(PLAN, {}).get("calls", []), "suite": names}
    for which, calls in lots.items():
        calls = calls[:QUICK_KERNELS] if record.quick else calls
        for number, first in enumerate(range(0, len(calls), LOT[which]), 1):
            lot = calls[first : first + LOT[which]]
            record.ask(f"{which} {number}", functools.partial(run_lot, which, lot, record.device, tool))


# ---- tables ----------------------------------------------------------------------------------------------------------


def lots_of(figures: dict, which: str) -> list[dict]:
    """What was found, lot by lot."""
    return [lot for name, lot in figures.items() if name.startswith(which) and set(TOOLS) <= set(lot)]


def signatures_table(figures: dict) -> str:
    """A row for each tool: calls that ended, what it found, what did not end."""
    lots, plan = lots_of(figures, "signatures"), figures.get(PLAN, {})
    lines = ["| tool | calls | did not end | kernels with findings |", "|---|---|---|---|"]
    for tool in TOOLS:
        if not lots:
            lines.append(f"| {tool} | not measured | | |")
            continue
        mine = [lot[tool] for lot in lots]
        lost = [f"{call} ({why})" for each in mine for call, why in each["lost"].items()]
        found = {kernel: said for each in mine for kernel, said in each["found"].items()}
        said = [f"`{kernel}` ({', '.join(messages)})" for kernel, messages in found.items()]
        lines.append(
            f"| {tool} | {sum(each['ended'] for each in mine)} | {'; '.join(lost)} | {'; '.join(said) or 'none'} |"
        )
    if plan:
        missing = plan["signatures"] and sum(plan["not launched"].values())
        lines += ["", f"Calls that launch {plan['signatures'] - missing} of {plan['signatures']} signatures."]
        if plan["not launched"]:
            names = ", ".join(f"`{name}`{f' ({n})' if n > 1 else ''}" for name, n in plan["not launched"].items())
            lines.append(f"Not launched: {names}.")
    return "\n".join(lines)


def suite_table(figures: dict, emulator: list[dict], in_words: dict[str, str]) -> str:
    """A row for each kind of mistake: found by the emulator, by each tool, by any tool; then false alarms."""
    lots = lots_of(figures, "suite")
    found = {tool: {kernel for lot in lots for kernel in lot[tool]["found"]} for tool in TOOLS}
    judged = {tool: looked_at(lots, tool) for tool in TOOLS}
    lines = [
        f"| kind of mistake | wrong kernels | emulator | {' | '.join(TOOLS)} | any tool |",
        "|---" * (len(TOOLS) + 4) + "|",
    ]
    for right in (False, True):
        for kind, words in [*in_words.items(), (None, "all")]:
            mine = [k for k in emulator if k["right"] is right and kind in (None, k["kind"])]
            if right and kind is not None:
                continue
            names = {k["kernel"] for k in mine}
            by_emulator = sum(bool(k["wrong about"]) == right for k in mine)
            cells = [str(len(found[tool] & names)) if names <= judged[tool] else "not measured" for tool in TOOLS]
            all_judged = all(names <= judged[tool] for tool in TOOLS)
            cells.append(str(len(set().union(*found.values()) & names)) if all_judged else "not measured")
            label = "right kernels: false alarms" if right else words
            lines.append(f"| {label} | {len(mine)} | {by_emulator} | {' | '.join(cells)} |")
    if lots:
        both = set().union(*found.values())
        missed = [k["kernel"] for k in emulator if not k["right"] and k["kernel"] not in both]
        unseen = [k["kernel"] for k in emulator if not k["right"] and k["wrong about"] and k["kernel"] in both]
        hung = sorted({call for lot in lots for tool in TOOLS for call in lot[tool]["lost"]})
        lines.append("")
        lines += [f"Found by no tool: {', '.join(f'`{name}`' for name in missed)}."] if missed else []
        lines += [f"Found by a tool alone: {', '.join(f'`{name}`' for name in unseen)}."] if unseen else []
        lines += [f"Ended by an error or a limit of time: {', '.join(f'`{name}`' for name in hung)}."] if hung else []
    return "\n".join(lines).rstrip()


def looked_at(lots: list[dict], tool: str) -> set[str]:
    """Calls that began under a tool. It saw what then hung or failed, too."""
    return {call for lot in lots for call in lot["calls"]
            if not lot[tool]["lost"].get(call, "").startswith(NOT_BEGUN)}  # fmt: skip


def tables(figures: dict, machine: str) -> str:
    from kernel_suite import IN_WORDS

    recorded = json.loads((Path(__file__).parent / "results" / "kernel-suite.json").read_text(encoding="utf-8"))
    return "\n\n".join([
        "The kernels of the suite, wrong and found:", suite_table(figures, recorded["kernels"], IN_WORDS),
        "Our own kernels, a call for each signature:", signatures_table(figures), machine,
    ])  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", choices=("cuda", "emulator"), default="cuda")
    p.add_argument("--tool", metavar="PROGRAM", help="compute-sanitizer, if it is not on PATH")
    p.add_argument("--minutes", type=positive_number, default=4, help="after which nothing new begins  [default: 4]")
    p.add_argument("--out", type=file_to_write, help="JSON file to write, and to go on with")
    p.add_argument("--readme", type=with_marks("compute-sanitizer"), help="page whose table is written anew")
    p.add_argument("--child", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.child:
        child(json.loads(a.child))
        return
    if found_tool(a.tool) is None:
        raise SystemExit("there is no compute-sanitizer here: install the CUDA toolkit, or name it with --tool")
    if a.tool:
        os.environ["COMPUTE_SANITIZER"] = a.tool
    import gpu

    record = gpu.measured_parts(["compute_sanitizer"], a.out, a.device, a.device != "cuda", None, 60 * a.minutes)
    written = tables(record["parts"]["compute_sanitizer"]["figures"], gpu.line_of_machine_and_date(record))
    print(f"\n{written}")
    if a.readme:
        write_between_markers(a.readme, "compute-sanitizer", written)


if __name__ == "__main__":
    main()
