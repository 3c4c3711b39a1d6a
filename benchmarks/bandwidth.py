"""Memory-bound kernels on arrays far beyond any cache: their share of the bandwidth that a copy of as many bytes has.

    python benchmarks/bandwidth.py --out benchmarks/results/bandwidth-DEVICE.json

`minidecode compare` times at the papers' sizes, a few megabytes that stay in a GPU's cache and take no longer than a
launch. Here the same inputs are repeated, row after row, until what must be moved at the least (the cost models, as in
compare) is --megabytes: 4,000 on a GPU, 256 without one. Each op runs by turns with a copy of as many bytes, read and
written; its share is of that copy's bandwidth, and useful bytes alone count, so what an implementation moves beyond
them makes it look slower. On a GPU the kernels are timed, without one the compiled code, or NumPy's where there is
none; each is checked before.

The target, on an H200: 80 % of the copy's bandwidth, better 90 %. Takes about two minutes without a GPU.
Prints the table; writes all figures to --out.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import math

import numpy as np
from flags import file_to_write, positive
from gpu_timing import Record
from records import write_record

from minidecode.bench.compare import copy_calls_to_device, describe_machine, implementations, time_by_turns
from minidecode.catalog import CATALOG, arguments_of
from minidecode.conformance import check
from minidecode.conformance.rows import axis_to_repeat, make_inputs_to_repeat
from minidecode.device.arrays import device_kind
from minidecode.ops import Weight

# Ops that compute little for each byte, of a layer, of its attention and of the search.
NAMES = ("norm", "activation", "heads", "append", "reorder", "linear", "split", "shared", "softmax", "beam_scores",
         "temperature", "argmax", "candidates")  # fmt: skip
STORED = {"linear": "float16"}  # what the engine multiplies few rows by
COPY = "copy"


def repeat_inputs(name: str, times: int) -> tuple[tuple, str]:
    """The paper's inputs with so many times the rows, or for a product the weights; and their shape in words."""
    arguments, shape = make_inputs_to_repeat(name, **({"stored": STORED[name]} if name in STORED else {}))
    made: dict[int, np.ndarray] = {}  # an array that stands in two places goes on doing so

    def more(argument: str, value):
        if isinstance(value, Weight):
            outputs = {"io": (1, times), "oi": (times, 1)}[value.layout]
            return dataclasses.replace(value, data=np.tile(value.data, outputs))
        if not isinstance(value, np.ndarray) or name in STORED or (axis := axis_to_repeat(name, argument)) is None:
            return value
        if id(value) not in made:
            made[id(value)] = np.tile(value, (*[1] * axis, times, *[1] * (value.ndim - 1 - axis)))
        return made[id(value)]

    given = arguments_of(CATALOG[name], arguments)
    return tuple(more(argument, value) for argument, value in given.items()), f"{shape}, {times} times"


def times_for(name: str, size: int) -> int:
    """How often the inputs are repeated until the op must move `size` bytes."""
    return max(1, math.ceil(size / CATALOG[name].cost(*repeat_inputs(name, 1)[0]).bytes))


def time_op(name: str, size: int, runs: int, cupy=None) -> dict:
    """An op beside a copy, by turns. Ends the script if the op is wrong. cupy: where the arrays lie; None: the host."""
    row, functions = CATALOG[name], implementations(CATALOG[name])
    label = next(label for label in (("cuda",) if cupy else ("cpu", "reference")) if label in functions)
    verdict = check(name, functions[label], examples=25)
    if not verdict.ok:
        raise SystemExit(f"{name}, {label} is wrong, so nothing is timed.\n{verdict}")
    arguments, shape = repeat_inputs(name, times_for(name, size))
    least = row.cost(*arguments).bytes
    here = cupy or np
    calls = {label: (functions[label], arguments)}
    if cupy:
        calls = copy_calls_to_device({label: functions[label]}, arguments, cupy)
    calls[COPY] = (here.copyto, (here.empty(least // 2, np.uint8), here.ones(least // 2, np.uint8)))
    synchronize = cupy.cuda.get_current_stream().synchronize if cupy else lambda: None
    op, copy = time_by_turns(calls, runs, synchronize)
    return {
        "name": name, "implementation": label, "shape": shape, "bytes": least,
        "milliseconds": [round(1e3 * s, 4) for s in (op.median, op.fastest, op.slowest)],
        "copy_milliseconds": [round(1e3 * s, 4) for s in (copy.median, copy.fastest, copy.slowest)],
        "share": round(copy.median / op.median, 4),
    }  # fmt: skip


def run(record: Record) -> None:
    """A part of gpu.py: every op, and in the emulator none."""
    if record.device == "emulator":
        record["skipped"] = "no kernel is timed in the emulator; --device cpu times the compiled CPU code"
        return
    cupy = importlib.import_module("cupy") if record.device == "cuda" else None
    size = 10**6 if record.quick else 10**9
    for name in NAMES:
        record.ask(name, lambda name=name: time_op(name, size, 5, cupy))
        if cupy:
            cupy.get_default_memory_pool().free_all_blocks()


def table(record: dict) -> str:
    """A line for each op."""
    lines = ["| op | on | GB, at the least | ms | GB/s | of a copy's | inputs |", "|---|---|---|---|---|---|---|"]
    for r in record["ops"]:
        median, fastest, slowest = r["milliseconds"]
        lines.append(
            f"| {r['name']} | {r['implementation']} | {r['bytes'] / 1e9:.2f} | {median:,.3f} ({fastest:,.3f}-"
            f"{slowest:,.3f}) | {r['bytes'] / median / 1e6:,.0f} | {r['share']:.0%} | {r['shape']} |"
        )
    m = record["machine"]
    lines.append(
        f"\nMedians of {record['runs']} turns. Machine: {m.get('gpu', 'no GPU')}, {m['cores']} cores"
        f" ({m['processor']}), NumPy {m['numpy']}, Numba {m['numba']}. {record['note']}".rstrip()
    )
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), metavar="OP", help=", ".join(NAMES))
    p.add_argument("--megabytes", type=positive, help="that an op moves at the least  [default: 4000; no GPU: 256]")
    p.add_argument("--runs", type=positive, default=9, help="turns that are timed")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    cupy = None
    if device_kind() == "gpu":
        try:
            import cupy
        except ImportError:
            raise SystemExit("timing on a GPU needs CuPy: pip install 'minidecode[cu13]', or [cu12]") from None
    size = 10**6 * (a.megabytes or (4000 if cupy else 256))
    record = {"machine": describe_machine(), "note": a.note, "runs": a.runs, "ops": []}
    for name in a.only:
        record["ops"].append(time_op(name, size, a.runs, cupy))
        if cupy:
            cupy.get_default_memory_pool().free_all_blocks()
    print(table(record))
    if a.out:
        write_record(a.out, record)


if __name__ == "__main__":
    main()
