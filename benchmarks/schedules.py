"""What the schedules of an emulated launch cost, and which races they find.

    python benchmarks/schedules.py --out benchmarks/results/schedules-cpu.json

Three kernels have a race that an atomic hides under some schedules: each runs under 200 seeds, and each run has to find
it. Two right kernels, of some 5 ms, 100 ms and 1 s, have to stay clean: their time under 12 schedules is given as a
multiple of one schedule's. Seconds are processor time of this process: the least of some runs, which take turns.

Takes some two minutes. Prints a line for each; writes them to --out.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from flags import file_to_write
from numba import cuda, float32
from records import write_record

import minidecode as md
from minidecode.bench.compare import describe_machine

SEEDS = 200


@cuda.jit
def counts_then_reads(count, y):
    cuda.atomic.add(count, 0, 1)
    if cuda.blockIdx.x == 0:
        y[0] = count[0]


@cuda.jit
def flag_that_no_thread_reads(data, flag, y):
    if cuda.threadIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        cuda.atomic.add(flag, 0, 1)
    else:
        cuda.atomic.add(flag, 0, 1)
        cuda.threadfence()
        y[0] = data[0]


@cuda.jit
def flag_that_no_block_reads(data, flag, y):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        cuda.atomic.add(flag, 0, 1)
    else:
        cuda.atomic.add(flag, 0, 1)
        cuda.threadfence()
        y[0] = data[0]


RACES = [(counts_then_reads, (4, 1), 2), (flag_that_no_thread_reads, (1, 2), 3), (flag_that_no_block_reads, (2, 1), 3)]


@cuda.jit
def histogram(x, counts):
    """Every element is counted by an atomic in global memory."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, x[i], 1)


@cuda.jit
def last_block_sums(x, partial, done, y):
    """Each block sums its part by a tree in shared memory; the last one to end adds up what the others have left."""
    s = cuda.shared.array(64, float32)
    last = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    s[t] = total
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        partial[cuda.blockIdx.x] = s[0]
        cuda.threadfence()
        last[0] = cuda.atomic.add(done, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t == 0:
        total = float32(0)
        for block in range(cuda.gridDim.x):
            total += partial[block]
        y[0] = total


def inputs_of(kernel, size: int, blocks: int) -> list[np.ndarray]:
    numbers = np.random.default_rng(0).integers(0, 16, size)
    if kernel is histogram:
        return [numbers.astype(np.int32), np.zeros(16, np.int32)]
    return [numbers.astype(np.float32), np.zeros(blocks, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)]


RIGHT = [  # kernel, launch, elements, runs of each
    (histogram, (2, 32), 600, 15), (histogram, (4, 64), 30_000, 5), (histogram, (8, 64), 300_000, 2),
    (last_block_sums, (2, 32), 200, 15), (last_block_sums, (8, 64), 50_000, 5), (last_block_sums, (32, 64), 800_000, 2),
]  # fmt: skip


def seconds_of(kernel, launch: tuple[int, int], size: int, schedules: int) -> tuple[float, object]:
    """Processor seconds of a run, and the run."""
    arguments = inputs_of(kernel, size, launch[0])
    started = time.process_time()
    run = md.emulate(kernel, schedules=schedules)[launch](*arguments)
    return time.process_time() - started, run


def times_one_run(kernel, launch: tuple[int, int], size: int, runs: int) -> dict:
    """What all schedules of a right kernel take, as a multiple of one."""
    one, every = [], []
    for _ in range(runs):
        one.append(seconds_of(kernel, launch, size, 1)[0])
        seconds, run = seconds_of(kernel, launch, size, 12)
        every.append(seconds)
    return {
        "kernel": run.name, "launch": launch, "elements": size, "seconds of one": round(min(one), 4),
        "seconds of all": round(min(every), 4), "times": round(min(every) / min(one), 2), "schedules": run.schedules,
        "verdict": run.verdict.splitlines()[0],
    }  # fmt: skip


def seeds_that_find(kernel, launch: tuple[int, int], arrays: int) -> dict:
    """Under how many seeds the race is found: by the first schedule, and by all."""
    first = finding_seeds = 0
    for seed in range(SEEDS):
        run = md.emulate(kernel, seed=seed)[launch](*(np.zeros(1, np.int32) for _ in range(arrays)))
        is_found = [e.kind for e in run.errors] == ["race"]
        finding_seeds += is_found
        first += is_found and run.schedules == 1
    return {
        "kernel": run.name,
        "launch": launch,
        "seeds": SEEDS,
        "found": finding_seeds,
        "by the first schedule": first,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=file_to_write, help="the file to write the figures to, as JSON")
    out = parser.parse_args().out
    races, right = [], []
    for case in RACES:
        races.append(seeds_that_find(*case))
        r = races[-1]
        print(f"{r['kernel']:26} race found under {r['found']} of {SEEDS} seeds ({r['by the first schedule']} by the"
              " first schedule)", flush=True)  # fmt: skip
    for case in RIGHT:
        right.append(times_one_run(*case))
        r = right[-1]
        one = f"{r['kernel']:16} {1e3 * r['seconds of one']:8.1f} ms"
        print(f"{one}, {r['schedules']:2} schedules {r['times']:5.2f} times: {r['verdict']}", flush=True)
    if out:
        write_record(out, {"machine": describe_machine(), "races": races, "right": right})


if __name__ == "__main__":
    main()
