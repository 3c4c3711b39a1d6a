"""Which mistakes the emulator finds in kernels of which the truth is known, and how often it raises a false alarm.

    python benchmarks/kernel_suite.py --out benchmarks/results/kernel-suite.json --readme docs/guide/kernels.md

The kernels are those of tests/emulator/labelled_kernels: about half have one mistake, the others are right and look
suspicious. Each runs under several seeds, with the emulator's own settings. A mistake counts as found if the emulator
reports an error of its kind under every seed. A right kernel counts as a false alarm if it reports any error under any
seed; its results are compared, too.

Takes some 15 seconds. Prints a row for each kind, and what was missed; writes them to --out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from flags import file_to_write, positive
from readme import with_marks, write_between_markers
from records import write_record

import minidecode as md
from minidecode.bench.compare import describe_machine

sys.path.append(str(Path(__file__).parents[1] / "tests" / "emulator"))
from labelled_kernels import KERNELS, KINDS, Labelled

SEEDS = 5
IN_WORDS = {
    "shared": "races in shared memory", "global": "races in global memory, views and shared bytes included",
    "divergence": "barriers and warp operations that some threads do not come to", "atomics": "atomics and locks",
    "fences": "fences", "uninitialised": "reads of what nothing wrote", "outside": "indices outside of arrays",
    "grid": "barriers of the grid",
}  # fmt: skip


def verdict_of(kernel: Labelled, seed: int) -> str:
    """ "" where the emulator is right about a kernel under a seed; else what it says, in one line."""
    arguments = kernel.arguments()
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    run = md.emulate(kernel.kernel, seed=seed, **kernel.options)[kernel.launch](*arguments)
    if not kernel.is_right:
        is_found = any(error.kind in KINDS[kernel.kind] for error in run.errors)
        return "" if is_found else run.verdict.splitlines()[0]
    if not run.ok:
        return run.verdict.splitlines()[0]
    expected = kernel.expected(*before)
    is_right = expected is None or np.array_equal(arguments[-1], expected)
    return "" if is_right else f"the results are not {np.asarray(expected)}"


def judge_kernel(kernel: Labelled, seeds: int) -> dict:
    """A kernel, its label, and what the emulator said where it was wrong about it."""
    said = {seed: words for seed in range(seeds) if (words := verdict_of(kernel, seed))}
    return {
        "kernel": kernel.name,
        "kind": kernel.kind,
        "right": kernel.is_right,
        "why": kernel.why,
        "wrong about": said,
    }


def table(kernels: list[dict], seeds: int) -> str:
    """A row for each kind, and one for all."""
    lines = ["| kind of mistake | wrong kernels | found | right kernels | false alarms |", "|---|---|---|---|---|"]
    for name, words in [*IN_WORDS.items(), (None, "all")]:
        mine = [k for k in kernels if name in (None, k["kind"])]
        wrong, right = ([k for k in mine if k["right"] is is_right] for is_right in (False, True))
        caught, alarms = sum(not k["wrong about"] for k in wrong), sum(bool(k["wrong about"]) for k in right)
        lines.append(f"| {words} | {len(wrong)} | {caught} | {len(right)} | {alarms} |")
    missed = [f"`{k['kernel']}` ({k['why']})" for k in kernels if k["wrong about"]]
    lines += ["", f"Each kernel ran under {seeds} seeds."]
    lines += [f"Wrong about: {', '.join(missed)}"] if missed else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=positive, default=SEEDS, help="under how many seeds each kernel runs")
    parser.add_argument("--out", type=file_to_write, help="the file to write the verdicts to, as JSON")
    parser.add_argument("--readme", type=with_marks("kernel-suite"), help="the page whose table is written anew")
    args = parser.parse_args()
    kernels = []
    for kernel in KERNELS:
        kernels.append(judge_kernel(kernel, args.seeds))
        for seed, words in kernels[-1]["wrong about"].items():
            print(f"{kernel.name}, seed {seed}: {words}", flush=True)
    written = table(kernels, args.seeds)
    print(written)
    if args.out:
        record = {"machine": describe_machine(), "seeds": args.seeds, "kernels": kernels}
        write_record(args.out, record)
    if args.readme:
        write_between_markers(args.readme, "kernel-suite", written)


if __name__ == "__main__":
    main()
