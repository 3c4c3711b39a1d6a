"""Where the time of a decode step goes: compiled code, op by op, and Python; with steps that are captured, and without.

    python benchmarks/step_profile.py --out benchmarks/results/step-profile-cpu.json --readme benchmarks/README.md

One text of 32 tokens, 64 new, greedy, with random weights of published shapes, on one thread. Times are those of the
processor (`time.process_time`), so other work on the machine matters little. A step is a generation of 64 tokens less
one of 4, divided by 60. The launches of a captured step are then run again, op by op and without Python between: that
is the compiled code. What is left of a step that is not captured is Python, with the search's own few calls.
Both ways must give the same tokens before anything is timed.

Takes about three minutes. Prints a table; writes it into --readme between the marks step-profile, and all figures to
--out.
"""

from __future__ import annotations

import os

os.environ["NUMBA_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded

import argparse
import json
import statistics
import time

import numpy as np
from flags import file_to_write, positive
from readme import with_marks, write_between_markers
from records import write_record

import minidecode as md
from minidecode.bench.compare import describe_machine
from minidecode.cpu.common.thread_pool import launch_all
from minidecode.cpu.common.tile import DOT
from minidecode.runtime import cpu_graphs

MODELS = ("gpt2", "SmolLM2-135M")
SHORT, LONG = 4, 64
NAMES = {"linear": "products", "linear_int8": "products", "attend_split": "attention", "residual_norm": "norms"}


class Watched(cpu_graphs.Watched):
    """Keeps the graph, and which op each of its launches is of."""

    last: Watched

    def __init__(self, graph) -> None:
        super().__init__(graph)
        self.op_of: list[str] = []
        Watched.last = self

    def run_op(self, name, function, args, kwargs):
        self.op_of += ["cache"] * (len(self.graph.launches) - len(self.op_of))  # launched between two ops
        result = super().run_op(name, function, args, kwargs)
        self.op_of += [name] * (len(self.graph.launches) - len(self.op_of))
        return result


def seconds(call) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def seconds_of_step(model, ids, plan: str) -> float:
    """Processor seconds of one decode step."""
    both = [
        seconds(lambda n=n: model.generate(input_ids=ids, plan=plan, max_new_tokens=n, eos_token_id=None))
        for n in (LONG, SHORT)
    ]
    return (both[0] - both[1]) / (LONG - SHORT)


def measure(name: str, dtype: str, turns: int) -> dict:
    """Milliseconds of a step, captured and not, and of its ops."""
    model, rng = md.load(name, random_weights=True, dtype=dtype, plan="fast"), np.random.default_rng(0)
    ids = rng.integers(0, model.config.vocab_size, (1, 32)).tolist()
    how = {"input_ids": ids, "max_new_tokens": LONG, "eos_token_id": None}
    texts = [model.generate(plan=f"fast,graphs={g}", **how).token_ids[0].tolist() for g in ("off", "auto")]
    if texts[0] != texts[1]:
        raise SystemExit(f"{name} {dtype}: captured steps give other tokens: nothing was timed")
    graph, op_of = Watched.last.graph, Watched.last.op_of
    rows: dict[str, list[np.ndarray]] = {op: [] for op in op_of}
    for op, row in zip(op_of, graph.launches, strict=True):
        rows[op].append(row)
    del rows["cache"]  # they would move the positions, and take a few nanoseconds each
    again = {op: np.concatenate(launches) for op, launches in rows.items()}
    milliseconds: dict[str, list[float]] = {}
    for _ in range(turns):
        for way in ("off", "auto"):
            milliseconds.setdefault(way, []).append(seconds_of_step(model, ids, f"fast,graphs={way}"))
        for op, launches in again.items():
            milliseconds.setdefault(op, []).append(
                seconds(lambda these=launches: [launch_all(these, ()) for _ in range(10)])
            )
    ms = {way: 1e3 * statistics.median(times) / (10 if way in again else 1) for way, times in milliseconds.items()}
    compiled = sum(ms[op] for op in rows)
    return {
        "model": name, "dtype": dtype, "plain_ms": round(ms["off"], 3), "captured_ms": round(ms["auto"], 3),
        "compiled_ms": round(compiled, 3), "ops_ms": {op: round(ms[op], 3) for op in rows},
        "launches": {op: len(launches) for op, launches in rows.items()},
    }  # fmt: skip


def table(record: dict) -> str:
    """Milliseconds of a step, by whose code they are."""
    lines = [
        "| model | dtype | a step | compiled code | products | attention | norms | other ops | Python"
        " | a captured step | Python left | gain |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in record["steps"]:
        kinds = dict.fromkeys((*NAMES.values(), "other"), 0.0)
        for op, ms in row["ops_ms"].items():
            kinds[NAMES.get(op, "other")] += ms
        plain, captured, compiled = row["plain_ms"], row["captured_ms"], row["compiled_ms"]
        python = plain - compiled
        cells = [
            row["model"], row["dtype"], *(f"{ms:.2f}" for ms in (plain, compiled, *kinds.values())),
            f"{python:.2f}, {python / plain:.0%}", f"{captured:.2f}", f"{captured - compiled:.2f}",
            f"{plain / captured - 1:+.1%}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    m = record["machine"]
    where = f"Milliseconds of processor time, medians of {record['turns']} turns, 1 thread ({m['processor']})"
    return "\n".join([*lines, "", f"{where}; numpy {m['numpy']}, numba {m['numba']}."])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--turns", type=positive, default=5)
    p.add_argument("--models", nargs="+", default=list(MODELS))
    p.add_argument("--dtypes", nargs="+", default=["float32", *(["int8_dynamic"] if DOT else [])])
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument("--readme", type=with_marks("step-profile"), help="file whose table between these marks is replaced")
    a = p.parse_args()
    cpu_graphs.Watched = Watched
    steps = []
    for name in a.models:
        for dtype in a.dtypes:
            steps.append(measure(name, dtype, a.turns))
            print(json.dumps(steps[-1]), flush=True)
    result = {"machine": describe_machine(), "turns": a.turns, "steps": steps}
    print(table(result))
    if a.out:
        write_record(a.out, result)
    if a.readme:
        write_between_markers(a.readme, "step-profile", table(result))


if __name__ == "__main__":
    main()
