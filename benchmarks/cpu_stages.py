"""Encoder, prefill and steps of the peers' works, each beside what the processor allows.

    python benchmarks/cpu_stages.py --out benchmarks/results/cpu-stages-cpu.json --readme benchmarks/README.md

This tells which stage loses on a processor. Of each stage it takes the seconds, what its ops compute and read at the
least (the catalog's costs), and the share of the time that the arithmetic alone needs: float32 operations over what
multiplications and additions reach on registers, those of int8_dynamic over what its dot products reach there. The
clock is measured too: alone, and while vectors of each kind run, for which some processors lower it. And bytes are set
beside what a thread reads from memory: steps of few rows are limited by it, not by arithmetic.

The first generation counts operations, with steps that are not captured. The others are timed, by turns with the
limits. On one thread, times are the processor's, so other work on the machine counts for little. For two threads of an
idle machine, set NUMBA_NUM_THREADS=2: times are then the clock's on the wall. Takes about two minutes. Prints the
tables; writes them into --readme between the marks cpu-stages, or cpu-stages-intel on an Intel, and all figures to
--out.
"""

from __future__ import annotations

import os

os.environ["NUMBA_NUM_THREADS"] = os.environ.get("NUMBA_NUM_THREADS", "1")  # before NumPy is loaded
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"]

import argparse
import functools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from flags import file_to_write, positive
from numba import njit
from peers import SETTINGS, is_intel, options_of, prompts_of
from readme import with_marks, write_between_markers
from records import write_record
from registers import Registers, kind_of_floats, operations_of

import minidecode as md
from minidecode.bench.compare import describe_machine
from minidecode.catalog import Cost
from minidecode.cpu.common.tile import DOT
from minidecode.runtime.engine import Engine
from minidecode.runtime.receipt import least_cost

STAGES = {  # of the engine -> its methods; the rest of a generation is the search
    "encoder": ("encode",), "prefill": ("prefill", "expand"), "steps": ("step", "keep_only"), "search": (),
}  # fmt: skip
READ = 2**26  # numbers that are read to find how fast memory is
THREADS = int(os.environ["NUMBA_NUM_THREADS"])
CLOCK = time.process_time if THREADS == 1 else time.perf_counter


@contextmanager
def watch_stages() -> Iterator[dict[str, float]]:
    """Seconds by stage, of the generations inside; "now" is the stage that runs."""
    seconds: dict = {**dict.fromkeys(STAGES, 0.0), "now": "search"}
    methods = {name: getattr(Engine, name) for names in STAGES.values() for name in names}
    stage_of = {name: stage for stage, names in STAGES.items() for name in names}

    def timed(name: str, method: Callable) -> Callable:
        @functools.wraps(method)
        def call(self, *args, **kwargs):
            before, seconds["now"], started = seconds["now"], stage_of[name], CLOCK()
            try:
                return method(self, *args, **kwargs)
            finally:
                seconds["now"] = before
                if before == "search":  # and not inside another method of these
                    seconds[stage_of[name]] += CLOCK() - started

        return call

    for name, method in methods.items():
        setattr(Engine, name, timed(name, method))
    try:
        yield seconds
    finally:
        for name, method in methods.items():
            setattr(Engine, name, method)


def count_stages(model, setting: dict) -> dict[str, dict[str, int]]:
    """Of each stage: operations on float32, operations on bytes, and bytes that are read and written, at the least."""
    found = {stage: {"floats": 0, "int8": 0, "bytes": 0} for stage in STAGES}
    with watch_stages() as seconds:

        def note(op: str, function, given: dict) -> Cost | None:
            cost = least_cost(op, function, given)
            if cost is not None:
                of_stage = found[seconds["now"]]
                of_stage["int8"] += cost.int8_operations
                of_stage["floats"] += cost.operations - cost.int8_operations
                of_stage["bytes"] += cost.bytes
            return cost

        generate(model, setting, costs=note, plan="fast,graphs=off")
    return found


def generate(model, setting: dict, **how):
    ngram = {"no_repeat_ngram_size": setting["ngram"]}
    return model.generate(input_ids=prompts_of(setting), **options_of(setting), **ngram, **how)


@njit(nogil=True, fastmath=True)
def _total_of(numbers):
    total = np.float32(0)
    for i in range(len(numbers)):
        total += numbers[i]
    return total


class Limits:
    """What the machine reaches, measured again in each turn."""

    def __init__(self) -> None:
        self.registers, self.floats = Registers(THREADS), kind_of_floats()
        if self.floats is None:
            raise SystemExit("this processor has no instruction that multiplies and adds vectors of float32")
        self.parts, self.pool = np.array_split(np.ones(READ, np.float32), THREADS), ThreadPoolExecutor(THREADS)

    def measure(self) -> dict[str, float]:
        registers = self.registers
        found = {
            "floats": registers.operations_a_second(self.floats), "hertz": registers.hertz(),
            "hertz_beside_floats": registers.hertz_beside(self.floats),
        }  # fmt: skip
        if DOT is not None:
            found |= {"int8": registers.operations_a_second(DOT), "hertz_beside_int8": registers.hertz_beside(DOT)}
        return found | {"bytes": 4 * READ / min(self._pass() for _ in range(3))}

    def _pass(self) -> float:
        started = CLOCK()
        list(self.pool.map(_total_of, self.parts))
        return CLOCK() - started


def measure(works: dict[str, dict], dtypes: list[str], turns: int) -> tuple[list[dict], dict]:
    """(the stages of each work and dtype, the limits): medians, and quartiles of the seconds."""
    limits, runs = Limits(), []
    limits.measure()  # compiles
    for name, setting in works.items():
        for dtype in dtypes:
            model = md.load(setting["model"], random_weights=True, dtype=dtype, plan="fast")
            runs.append((name, dtype, setting, model, count_stages(model, setting)))
            generate(model, setting)
    taken: list[dict[str, list[float]]] = [{stage: [] for stage in STAGES} for _ in runs]
    reached: dict[str, list[float]] = {}
    rng = np.random.default_rng(0)
    for _ in range(turns):
        for what, number in limits.measure().items():
            reached.setdefault(what, []).append(number)
        for k in rng.permutation(len(runs)):
            _, _, setting, model, _ = runs[k]
            with watch_stages() as seconds:
                started = CLOCK()
                generate(model, setting)
                whole = CLOCK() - started
            seconds["search"] = whole - sum(seconds[stage] for stage in STAGES if stage != "search")
            for stage in STAGES:
                taken[k][stage].append(seconds[stage])
    peak = {what: float(np.median(numbers)) for what, numbers in reached.items()}
    rows = []
    for (name, dtype, _, _, costs), of_run in zip(runs, taken, strict=True):
        for stage, of_stage in costs.items():
            median, lower, upper = (float(x) for x in np.quantile(of_run[stage], (0.5, 0.25, 0.75)))
            if stage == "search" or not of_stage["floats"] + of_stage["int8"]:
                continue
            arithmetic = of_stage["floats"] / peak["floats"]
            arithmetic += of_stage["int8"] / peak["int8"] if of_stage["int8"] else 0
            operations = of_stage["floats"] + of_stage["int8"]
            rows.append({
                "work": name, "dtype": dtype, "stage": stage, "seconds": [round(x, 4) for x in (median, lower, upper)],
                "operations": operations, "bytes": of_stage["bytes"],
                "gigaoperations_a_second": round(operations / median / 1e9, 1),
                "of_registers": round(arithmetic / median, 3),
                "of_reading": round(of_stage["bytes"] / peak["bytes"] / median, 3),
            })  # fmt: skip
    spread = {what: [float(x) for x in np.quantile(numbers, (0.5, 0.25, 0.75))] for what, numbers in reached.items()}
    return rows, spread


def table(record: dict) -> str:
    """A line for each stage; the limits below."""
    lines = ["| work | dtype | stage | seconds | 10^9 operations | 10^9 a second | of registers alone | of reading |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in record["stages"]:
        median, lower, upper = row["seconds"]
        lines.append(
            f"| {row['work']} | {row['dtype']} | {row['stage']} | {median:.3f} ({lower:.3f}-{upper:.3f})"
            f" | {row['operations'] / 1e9:.1f} | {row['gigaoperations_a_second']:.0f} | {row['of_registers']:.0%}"
            f" | {row['of_reading']:.0%} |"
        )
    m, limits = record["machine"], record["limits"]
    lines += ["", "| limit | | clock meanwhile | a cycle |", "|---|---|---|---|"]
    for what, kind in (("floats", m["floats"]), ("int8", m["int8"])):
        if what in limits:
            clock, a_core = limits[f"hertz_beside_{what}"][0], limits[what][0] / m["threads"]
            lines.append(
                f"| {kind}, on registers alone | {cell_of_three(limits[what], 1e9, '.0f')} x 10^9 operations a second"
                f" | {cell_of_three(limits[f'hertz_beside_{what}'], 1e9, '.2f')} GHz"
                f" | {a_core / clock / record['operations_of_an_instruction'][what]:.2f} instructions |"
            )
    lines.append(f"| additions in a chain | | {cell_of_three(limits['hertz'], 1e9, '.2f')} GHz | 1 addition |")
    lines.append(f"| reading | {cell_of_three(limits['bytes'], 1e9, '.1f')} GB/s | | |")
    clock = "processor time of 1 thread" if m["threads"] == 1 else f"{m['threads']} threads"
    where = f"Medians of {record['turns']} turns and quartiles, {clock} ({m['processor']})"
    return "\n".join([*lines, "", f"{where}; numpy {m['numpy']}, numba {m['numba']}. {m['note']}".strip()])


def cell_of_three(numbers: list[float], unit: float, form: str) -> str:
    median, lower, upper = (format(number / unit, form) for number in numbers)
    return f"{median} ({lower}-{upper})"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--turns", type=positive, default=7)
    p.add_argument("--only", nargs="+", default=list(SETTINGS), metavar="WORK", help="works whose name begins so")
    p.add_argument("--dtypes", nargs="+", default=["float32", *(["int8_dynamic"] if DOT else [])])
    p.add_argument("--note", default="", help="what a reader should know of the machine")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument(
        "--readme",
        type=with_marks("cpu-stages", "cpu-stages-intel"),
        help="file whose table between these marks is replaced",
    )
    a = p.parse_args()
    works = {name: s for name, s in SETTINGS.items() if any(name.startswith(o) for o in a.only)}
    if not works:
        raise SystemExit(f"nothing to do: works are {'; '.join(SETTINGS)}")
    stages, limits = measure(works, a.dtypes, a.turns)
    floats = kind_of_floats()
    kinds = {what: kind for what, kind in (("floats", floats), ("int8", DOT)) if kind}
    machine = describe_machine() | {"threads": THREADS, "note": a.note, "floats": "", "int8": ""}
    machine |= {what: kind.name for what, kind in kinds.items()}
    of_each = {what: operations_of(kind) for what, kind in kinds.items()}
    result = {
        "machine": machine, "turns": a.turns, "operations_of_an_instruction": of_each, "limits": limits,
        "stages": stages,
    }  # fmt: skip
    print(table(result))
    if a.out:
        write_record(a.out, result)
    if a.readme:
        write_between_markers(a.readme, "cpu-stages-intel" if is_intel(result) else "cpu-stages", table(result))


if __name__ == "__main__":
    main()
