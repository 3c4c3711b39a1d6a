"""What the emulator costs: a tree reduction untraced, and a traced access, at several block sizes.

    python benchmarks/emulator.py --out benchmarks/results/emulator-cpu.json

Seconds are processor time of this process, medians of the runs with the smallest and largest beside them: other work
on the machine does not count, though it slows down what shares its caches. A traced access costs what tracing adds:
the whole traced launch divided by its accesses is given too.

Takes some 20 seconds. Prints a line for each launch; writes them to --out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
from flags import file_to_write, positive
from numba import cuda, float32
from records import write_record

import minidecode as md
from minidecode.bench.compare import describe_machine


@cuda.jit
def tree(x, y):
    s = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        y[cuda.blockIdx.x] = s[0]


@cuda.jit
def sum_of_a_tile(x, y):
    """Every thread reads every element of the block's tile: as many accesses per barrier as threads squared."""
    s = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    total = float32(0)
    for k in range(cuda.blockDim.x):
        total += s[k]
    y[cuda.grid(1)] = total


@cuda.jit
def racing_sum_of_a_tile(x, y):
    """`sum_of_a_tile` without its barrier: every element is raced for by every thread."""
    s = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    for k in range(t, cuda.blockDim.x):
        s[k] = x[k]
    total = float32(0)
    for k in range(t, cuda.blockDim.x):
        total += s[k]
    y[cuda.grid(1)] = total


@cuda.jit
def stream(x, y):
    """A thread walks through global memory with a stride of the grid; no shared memory, no barrier."""
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    y[cuda.grid(1)] = total


def seconds_of(kernel, launch: tuple[int, int], runs: int, **options) -> tuple[list[float], object]:
    """Processor seconds of each run, sorted, and the last run."""
    grid, block = launch
    x, y = np.ones(max(grid * block, 65536), np.float32), np.zeros(grid * block, np.float32)
    x = x[: grid * block] if kernel is not stream else x
    seconds, run = [], None
    for _ in range(runs + 1):  # the first one warms up
        started = time.process_time()
        run = md.emulate(kernel, **options)[grid, block](x, y)
        seconds.append(time.process_time() - started)
    return sorted(seconds[1:]), run


def row(kernel, launch: tuple[int, int], runs: int) -> dict:
    """Untraced and traced seconds of one launch, and microseconds per traced access."""
    plain, _ = seconds_of(kernel, launch, runs, trace=False)
    traced, run = seconds_of(kernel, launch, runs)
    accesses = sum(c.accesses for c in run.sites.values())
    whole, median = statistics.median(traced), statistics.median(plain)
    return {
        "kernel": kernel.py_func.__name__, "grid": launch[0], "block": launch[1], "accesses": accesses,
        "untraced_ms": round(1e3 * median, 2), "untraced_ms_range": [round(1e3 * s, 2) for s in (plain[0], plain[-1])],
        "traced_ms": round(1e3 * whole, 2), "traced_ms_range": [round(1e3 * s, 2) for s in (traced[0], traced[-1])],
        "us_per_access_added_by_tracing": round(1e6 * (whole - median) / accesses, 3),
        "us_per_access_whole_launch": round(1e6 * whole / accesses, 3),
    }  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=positive, default=5, help="turns that are timed")
    p.add_argument("--note", default="", help="what else ran on the machine meanwhile")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    a = p.parse_args()
    launches = [(tree, (4, 256)), (tree, (1, 1024)), (sum_of_a_tile, (1, 64)), (sum_of_a_tile, (1, 256)),
                (sum_of_a_tile, (1, 1024)), (racing_sum_of_a_tile, (1, 256)), (stream, (2, 128))]  # fmt: skip
    rows = []
    for kernel, launch in launches:
        rows.append(row(kernel, launch, a.runs))
        print(json.dumps(rows[-1]), flush=True)
    machine = describe_machine() | {"note": a.note}
    if a.out:
        write_record(a.out, {"machine": machine, "rows": rows})


if __name__ == "__main__":
    main()
