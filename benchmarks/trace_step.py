"""What a reader of one decode step meets: the files and functions that it runs through, and calls between files.

    python benchmarks/trace_step.py --out benchmarks/results/trace-step.json --readme benchmarks/README.md

tiny-gpt2, greedy under plan=numpy, and with 4 beams under plan=fast: steps that are captured, and steps that are not. A
step is all that Python calls from one `Engine.step` to the next; in a captured step, the call that launches it is
among it. Files and functions are those of the package. A call from file to file is one whose caller, the nearest on the
stack that is of the package, is in another file. Comprehensions count as a part of what they stand in. Compiled code
calls on by itself, which no trace sees.

Takes about ten seconds, and a minute more where nothing is compiled yet. Prints the table; writes all figures to --out
and the table to --readme.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

from flags import file_to_write, positive
from readme import with_marks, write_between_markers
from records import write_record

import minidecode as md
from minidecode.bench.compare import describe_machine
from minidecode.runtime.engine import Engine

PACKAGE = Path(md.__file__).parent
WORKS = {  # what a row of the table is called -> (plan, options)
    "greedy, `numpy`": ("numpy", {}),
    "4 beams, `fast`, a captured step": ("fast", {"num_beams": 4}),
    "4 beams, `fast,graphs=off`": ("fast,graphs=off", {"num_beams": 4}),
}
BEFORE = {  # the layout's third edition: what this script counted on commit dc527bcc
    "greedy, `numpy`": {"files": 30, "functions": 78, "between_files": 450},
    "4 beams, `fast`, a captured step": {"files": 29, "functions": 69, "between_files": 95},
    "4 beams, `fast,graphs=off`": {"files": 46, "functions": 115, "between_files": 774},
}
BY_HAND = {  # and what a trace of that time counted, whose script was not kept
    "greedy, `numpy`": {"files": 30, "functions": 84},
    "beam search, `fast`": {"files": 48, "functions": 140, "between_files": 539},
}
COUNTS = ("files", "functions", "between_files")
INSIDE = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")  # parts of what they stand in


class Trace:
    """A profile function that notes the calls of one step: from the `number`-th call of Engine.step to the next."""

    def __init__(self, number: int):
        self.number, self.steps = number, 0
        self.step = getattr(Engine.step, "__wrapped__", Engine.step).__code__
        self.functions: set[tuple[str, str]] = set()
        self.between: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        self.steps += code is self.step
        file = file_of(code)
        if self.steps != self.number or file is None or code.co_name in INSIDE:
            return
        self.functions.add((file, code.co_qualname))
        caller = frame.f_back
        while caller is not None and file_of(caller.f_code) is None:
            caller = caller.f_back
        if caller is not None and (of := file_of(caller.f_code)) not in (None, file):
            self.between[str(of), file] += 1


def file_of(code: CodeType) -> str | None:
    """The file within the package; None of others' code."""
    path = Path(code.co_filename)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


def trace_step(plan: str, options: dict, number: int) -> dict:
    """The figures of the step with this number, in a generation whose kernels are compiled."""
    model, tokens = md.load("tiny-gpt2", plan=plan), number + 2
    how = {"max_new_tokens": tokens, "min_new_tokens": tokens, **options}
    model.generate(["Fellow citizens,"], **how)
    trace = Trace(number)
    sys.setprofile(trace)
    try:
        model.generate(["Fellow citizens,"], **how)
    finally:
        sys.setprofile(None)
    if trace.steps <= number:
        raise SystemExit(f"a generation of {tokens} tokens had {trace.steps} steps: nothing is traced")
    files = sorted({file for file, _ in trace.functions})
    return {
        "plan": plan, "options": options, "files": len(files), "functions": len(trace.functions),
        "between_files": sum(trace.between.values()), "most": [[*pair, n] for pair, n in trace.between.most_common(3)],
        "names_of_files": files,
    }  # fmt: skip


def table(record: dict) -> str:
    """A line for each work; in parentheses, what was counted before."""
    lines = ["| a step | files | functions | calls from file to file | most of them |", "|---|---|---|---|---|"]
    for name, found in record["steps"].items():
        before = record["before"].get(name, {})
        counts = [f"{found[what]} ({before[what]})" if before else f"{found[what]}" for what in COUNTS]
        (caller, called, times), *_ = found["most"]
        lines.append(f"| {' | '.join([name, *counts])} | {caller} to {called}: {times} |")
    return "\n".join([*lines, "", f"Step {record['step']} of tiny-gpt2, Python {record['machine']['python']}."])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--step", type=positive, default=8, help="which decode step is traced")
    p.add_argument("--out", type=file_to_write, help="JSON file to write")
    p.add_argument("--readme", type=with_marks("trace-step"), help="file whose table between these marks is replaced")
    a = p.parse_args()
    steps = {name: trace_step(*work, a.step) for name, work in WORKS.items()}
    record = {"machine": describe_machine(), "step": a.step, "before": BEFORE, "by_hand": BY_HAND, "steps": steps}
    print(table(record))
    if a.out:
        write_record(a.out, record)
    if a.readme:
        write_between_markers(a.readme, "trace-step", table(record))


if __name__ == "__main__":
    main()
