"""A decode step's attention over caches of float32 and of float16, on one thread.

    python benchmarks/low_precision_caches.py --out benchmarks/results/low-precision-caches-cpu.json

GPT-2's heads, one sentence of 4 beams, prompts of 64 to 1,024 positions: once for all beams (`split`) or for each of
them (`grouped`), by NumPy (reference) and by compiled code (cpu). Each call gets the cache of another layer, as in a
decode step, in which all layers go by before the first is needed again. Before anything is timed, every answer is held
against float32's answer to the same stored numbers. The clock is the thread's own, which stands still while other
programs have its core.

Where float16 loses: in NumPy, whose own conversion of halves takes longer than reading twice the bytes. Half of the
bytes are then all that is gained.

Takes some 20 seconds. Prints the table; writes all figures to --out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import cycle

import numpy as np
from flags import file_to_write, positive
from records import write_record
from threadpoolctl import threadpool_limits

from minidecode.bench.compare import describe_machine
from minidecode.cpu import grouped as cpu_grouped
from minidecode.cpu import split as cpu_split
from minidecode.device.low_precision import cast_for_cache
from minidecode.reference import grouped, split

LAYERS, BEAMS, HEADS, WIDTH, GENERATED = 12, 4, 12, 64, 32
WAYS = {
    "split, reference": split.attend_split, "split, cpu": cpu_split.attend_split,
    "grouped, reference": grouped.attend, "grouped, cpu": cpu_grouped.attend,
}  # fmt: skip
STORED = ("float32", "float16")


def caches_of_layers(way: str, N: int, rng) -> list[tuple]:
    """The op's arguments for each layer, in float32."""

    def keys_and_values(rows: int, positions: int) -> list[np.ndarray]:
        return [rng.standard_normal((rows, HEADS, positions, WIDTH), np.float32) for _ in range(2)]

    calls, none_R = [], np.zeros(BEAMS, np.int64)
    for _ in range(LAYERS):
        q_RHK = rng.standard_normal((BEAMS, HEADS, WIDTH), np.float32)
        if way.startswith("split"):
            generated = *keys_and_values(BEAMS, GENERATED), none_R, np.full(BEAMS, GENERATED)
            calls.append((q_RHK, *keys_and_values(1, N), np.zeros(1, np.int64), *generated, WIDTH**-0.5))
        else:
            calls.append((q_RHK, *keys_and_values(BEAMS, N), none_R, np.full(BEAMS, N), WIDTH**-0.5))
    return calls


def caches_stored_as(dtype: str, layers: list[tuple]) -> list[tuple]:
    return [tuple(cast_for_cache(np.dtype(dtype), a) if np.ndim(a) == 4 else a for a in layer) for layer in layers]


def calls_of(way: str, N: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """A call for each way to store the same numbers, which are checked first."""
    layers, attend = caches_of_layers(way, N, np.random.default_rng(0)), WAYS[way]
    for dtype in STORED:
        narrow = caches_stored_as(dtype, layers)
        answers = attend(*narrow[0]), attend(*caches_stored_as("float32", narrow)[0])
        if np.abs(answers[0] - answers[1]).max() > 1e-6:
            raise SystemExit(f"{way}, {dtype}: not what float32 says of the same numbers")
        turns = cycle(narrow)
        yield dtype, lambda turns=turns: attend(*next(turns))


def milliseconds(calls: dict, repeats: int) -> dict[tuple, list[float]]:
    """Each once to warm up, then all by turns in an order that changes: a turn is a step's calls of all layers."""
    seconds, rng = {label: [] for label in calls}, np.random.default_rng(0)
    for turn in range(repeats + 1):
        for index in rng.permutation(len(calls)):
            label = list(calls)[index]
            started = time.thread_time()
            for _ in range(LAYERS):
                calls[label]()
            if turn > 0:
                seconds[label].append((time.thread_time() - started) / LAYERS)
    return {label: [1e3 * f(s) for f in (statistics.median, min, max)] for label, s in seconds.items()}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--positions", nargs="+", type=positive, default=[64, 256, 1024])
    p.add_argument("--repeats", type=positive, default=15, help="turns that are timed")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    rows = []
    with threadpool_limits(1):
        print("| op | positions | float32, ms a layer | float16 | float32 / float16 |\n|---|---|---|---|---|")
        for N in a.positions:
            calls = {(way, dtype): call for way in WAYS for dtype, call in calls_of(way, N)}
            medians = milliseconds(calls, a.repeats)
            for way in WAYS:
                ms = {dtype: [round(t, 4) for t in medians[way, dtype]] for dtype in STORED}
                rows.append({"op": way, "positions": N, "milliseconds": ms})
                wide, narrow = (f"{m[0]:.3f} ({m[1]:.3f}-{m[2]:.3f})" for m in ms.values())
                times = ms["float32"][0] / ms["float16"][0]
                print(f"| {way} | {N} | {wide} | {narrow} | {times:.2f}x |", flush=True)
    machine = describe_machine() | {"note": a.note}
    if a.out:
        shape = {"layers": LAYERS, "beams": BEAMS, "heads": HEADS, "width": WIDTH, "generated": GENERATED}
        whole = {"machine": machine, "threads": 1, "shape": shape, "rows": rows}
        write_record(a.out, whole)


if __name__ == "__main__":
    main()
