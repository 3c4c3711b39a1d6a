"""Everything that is measured on a GPU, in one command. A call takes about eight minutes, and never more.

    python benchmarks/gpu.py --out benchmarks/results/gpu-DEVICE.json
    python benchmarks/gpu.py --only papers --out benchmarks/results/gpu-DEVICE.json
    python benchmarks/gpu.py --only compute_sanitizer --minutes 4 --out benchmarks/results/gpu-DEVICE.json

Parts run in this order:

- smoke: the bundled models give the CPU's tokens.
- launches: what a launch costs in each style, alone and in a captured graph; what capture costs and accepts.
- linear, attention, rows, vocab: kernels of a decode step, beside a copy of as many bytes.
- library: from how many rows cuBLAS wins, which later parts and later runs on this GPU follow.
- ours, eager: GPT-2 and BART-large of random float16 weights, by minidecode and by transformers: a call, its first
  token, a step, and of ours the stages.
- ngram, el, multi_query: FastSeq's Table 3, EL's attention, multi-query decoding.
- narrow: GPT-2 at one row with weights of float16, int8, int8_blocks and int4.
- bandwidth: the plan's own choice of each memory-bound kernel, on a gigabyte, beside a copy.
- ctranslate2: the same models, if it is installed.
- static: GPT-2 by transformers with a static cache and compiled steps. It compiles for a minute, so it comes last.

Their limits add up to 905 s. On an H100 smoke took 37 s of 60 and ours 39 of 90; other parts' times were not measured.
What a call of eight minutes leaves out, static first, runs when the same command is given a second time.

The papers' other tables are a group, which takes up to eight minutes more (--only papers):

- whole_models: FastSeq's Table 1 and EL's Table 2. rungs, shares: FastSeq's Table 2 and Figure 1, on BART-large.
- quality: whether a plan or a dtype changes a text (FastSeq's Table 4). el_figures: EL's Figures 3 and 4.
- batch_sizes: EL's Tables 3 and 4. lightseq: LightSeq's Figures 5 and 6.

compute_sanitizer has a script of its own, which says what it does. --only all runs everything.

Each figure is written to --out as it comes, and the file is whole at every moment. A part that fails, or takes longer
than its limit, ends alone. The same command again goes on where the first one ended: what is done is kept, what failed
is tried again. Parts run in processes of their own; --models keeps the models' folders (1 GB) for the next call.

Without a GPU, --device emulator or cpu runs the same code on toy shapes (--quick), to see that it works; its times say
nothing, so parts may take eight times as long, and all an hour. Skipped there: linear, attention, rows and vocab, in
the emulator bandwidth too, and of launches what needs CuPy. Prints a line for each figure, with the seconds since the
start, and tables at the end; --out keeps them.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import json
import multiprocessing as mp
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flags import file_to_write, positive_number
from gpu_models import WORKS
from gpu_timing import FAILED, DeviceLostError, Record, is_failure, why
from readme import with_marks, write_between_markers
from records import write_record

from minidecode.bench.compare import describe_machine
from minidecode.device.arrays import chosen_device
from minidecode.errors import OptionError


@dataclass(frozen=True)
class Part:
    """A function of a file of this folder, and the seconds after which it is ended.

    `main` is a script's own: it gets these arguments, and each line that it prints is a figure.
    """

    file: str
    function: str
    limit: int
    arguments: tuple[str, ...] = ()
    figure_limit: int = 45  # of a single figure
    alone: bool = False  # in a process of its own: torch's memory and threads are not to stay
    needs_gpu: bool = False
    group: str = ""  # that --only names it by; without one it belongs to the usual call


PARTS = {
    "smoke": Part("gpu_models", "smoke", 60),
    "launches": Part("gpu_launches", "run", 50),
    "linear": Part("gpu_linear", "main", 45, ("--seconds", "25", "--out", os.devnull), needs_gpu=True),
    "attention": Part("gpu_attention", "main", 45, needs_gpu=True),
    "rows": Part("gpu_rows", "main", 45, needs_gpu=True),
    "vocab": Part("gpu_vocab", "main", 45, needs_gpu=True),
    "library": Part("gpu_library", "run", 50),
    "ours": Part("gpu_models", "run_ours", 90),
    "eager": Part("gpu_models", "run_eager", 70, alone=True),
    "ngram": Part("gpu_papers", "run_ngram", 25),
    "el": Part("gpu_papers", "run_el", 35),
    "multi_query": Part("gpu_papers", "run_multi_query", 35),
    "narrow": Part("gpu_models", "run_narrow", 60),
    "bandwidth": Part("bandwidth", "run", 40),
    "ctranslate2": Part("gpu_models", "run_ctranslate2", 60, alone=True),
    "static": Part("gpu_models", "run_static", 150, figure_limit=120, alone=True),
    "whole_models": Part("gpu_papers", "run_whole_models", 200, figure_limit=60, group="papers"),
    "rungs": Part("gpu_papers", "run_rungs", 60, figure_limit=60, group="papers"),
    "shares": Part("gpu_papers", "run_shares", 45, alone=True, group="papers"),
    "quality": Part("gpu_papers", "run_quality", 45, group="papers"),
    "el_figures": Part("gpu_papers", "run_el_figures", 60, group="papers"),
    "batch_sizes": Part("gpu_papers", "run_batch_sizes", 100, group="papers"),
    "lightseq": Part("gpu_papers", "run_lightseq", 120, group="papers"),
    "compute_sanitizer": Part("compute_sanitizer", "run", 240, figure_limit=110, group="sanitizer"),
}
LEAST_SECONDS = 5  # that a part is begun with
SLOWER = 8  # times that limits are longer without a GPU, where parts emulate kernels
DONE, LOST = "done", "the device was lost"
PACKAGES = ("minidecode", "numpy", "numba", "numba-cuda", "cupy-cuda13x", "cupy-cuda12x", "nvmath-python", "torch",
            "transformers", "triton", "ctranslate2")  # fmt: skip


# ---- a part in its process -------------------------------------------------------------------------------------------


def serve(pipe: Any, device: str, quick: bool, models: Path) -> None:
    """A process that runs the parts that it is sent. Sends what it begins, each figure, and how the part ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too; the process that asked ends it

    def begin(name: str) -> None:
        pipe.send(("begins", name, None))

    def send(name: str, figures: Any) -> None:
        pipe.send(("figures", name, figures))

    while (asked := pipe.recv()) is not None:
        part, before, tried = asked
        record = Record(device, quick, models, before, tried, begin, send)
        try:
            if part.needs_gpu and device != "cuda":
                record["skipped"] = f"{part.file}.py times kernels on a GPU alone"
            elif part.function == "main":
                record_lines(getattr(importlib.import_module(part.file), part.function), part, record)
            else:
                getattr(importlib.import_module(part.file), part.function)(record)
        except ModuleNotFoundError as error:
            pipe.send(("ends", None, f"there is no {part.file}.py here" if error.name == part.file else why(error)))
        except (Exception, SystemExit) as error:
            pipe.send(("ends", None, LOST if isinstance(error, DeviceLostError) else why(error)))
        else:
            give_memory_back()
            pipe.send(("ends", None, None))


def give_memory_back() -> None:
    """What CuPy keeps for later arrays, which another process may need."""
    gc.collect()
    if cupy := sys.modules.get("cupy"):
        cupy.get_default_memory_pool().free_all_blocks()


def record_lines(main: Callable[[], None], part: Part, record: Record) -> None:
    """Runs a script's main(); each line that it prints is a figure, numbered."""
    sys.argv = [f"{part.file}.py", *part.arguments]
    with redirect_stdout(Lines(record)):
        main()


class Lines(io.TextIOBase):
    """A place to print to."""

    def __init__(self, record: Record):
        self._record, self._begun, self._count = record, "", 0

    def write(self, text: str) -> int:
        *whole, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, whole):
            self._count += 1
            self._record[f"{self._count:03}"] = line.rstrip()
        return len(text)


class Worker:
    """The process that runs parts. It is replaced after a failure, which may have left the device unusable."""

    def __init__(self, *given: Any):
        self._given = given
        self._process = None

    def run(
        self, part: Part, before: dict, tried: set[str], seconds: float, tell: Callable[[str, Any], None]
    ) -> tuple[str | None, str | None]:
        """Tells each figure as it comes. Returns why the part ended early, and the figure that it was at."""
        if self._process is None:
            self._start()
        deadline, begun, at = time.monotonic() + seconds, time.monotonic(), None
        self._pipe.send((part, before, tried))
        while True:
            until = min(deadline, begun + part.figure_limit) if at else deadline
            if not self._pipe.poll(max(0.0, until - time.monotonic())):
                return f"ended after {time.monotonic() - begun:.0f} s of it", at
            try:
                kind, name, content = self._pipe.recv()
            except (EOFError, OSError):
                return "its process ended: see what it printed", at
            if kind == "ends":
                return content, None
            if kind == "figures":
                tell(name, content)
            at, begun = name if kind == "begins" else None, time.monotonic()

    def _start(self) -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, *self._given), daemon=True)
        self._process.start()
        theirs.close()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


# ---- the results' file -----------------------------------------------------------------------------------------------


class Results:
    """What was found so far, in a file that is whole at every moment."""

    def __init__(self, path: Path | None, about: dict):
        self.path, self.record = path, about | {"parts": {}}
        if path is not None and path.exists():
            before = json.loads(path.read_text(encoding="utf-8"))
            for key in ("device", "quick"):
                if before[key] != about[key]:
                    raise SystemExit(
                        f"{path} has {key} {before[key]}, and this is {about[key]}: name another file with --out"
                    )
            self.record["parts"] = before["parts"]

    def part(self, name: str) -> dict:
        return self.record["parts"].setdefault(name, {"state": "not run", "figures": {}})

    def save(self) -> None:
        if self.path is None:
            return
        unfinished = self.path.with_name(f"{self.path.name}.unfinished")
        write_record(unfinished, self.record)
        os.replace(unfinished, self.path)


def versions() -> dict[str, str]:
    """Package -> version, of those that are installed."""
    installed = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


# ---- tables ----------------------------------------------------------------------------------------------------------


def tables(record: dict) -> str:
    """Whole models beside their peers, the stages of ours, and a line for each other figure."""
    parts = record["parts"]
    lines = models_table(parts) if any(system in parts for system in SYSTEMS) else []
    for name, part in parts.items():
        if name not in SYSTEMS:
            lines += ["", f"{name}: {part['state']}", "", "| | |", "|---|---|"]
            lines += [f"| {figure} | {figure_in_short(value)} |" for figure, value in part["figures"].items()]
    return "\n".join([*lines, "", line_of_machine_and_date(record)]).strip()


def line_of_machine_and_date(record: dict) -> str:
    """The machine, the date and the versions, in a line."""
    m, toys = record["machine"], "Toy shapes. " if record["quick"] else ""
    packages = ", ".join(f"{package} {number}" for package, number in record["versions"].items())
    return f"{toys}{m.get('gpu', 'no GPU')} ({m['processor']}, {m['cores']} cores), {record['date']}; {packages}."


SYSTEMS = {"ours": "minidecode", "eager": "transformers, eager", "static": "static + compile",
           "ctranslate2": "CTranslate2"}  # fmt: skip


def models_table(parts: dict) -> list[str]:
    """Milliseconds a call of each system, a step in brackets; ours over eager; then the stages of ours."""
    lines = [f"| work | {', ms | '.join(SYSTEMS.values())}, ms | over eager | goals, ms | tokens as eager's |",
             "|---" * (len(SYSTEMS) + 4) + "|"]  # fmt: skip
    stages = ["", "| work of minidecode, ms | first token | a step | host, us a step | stages by the host's clock |"
              " graphs: captured, kept |", "|---|---|---|---|---|---|"]  # fmt: skip
    for work in WORKS:
        rows = {system: parts.get(system, {}).get("figures", {}).get(work) for system in SYSTEMS}
        cells = [cell_of_times(rows[system]) for system in SYSTEMS]
        mine, eager = rows["ours"], rows["eager"]
        ratio = alike = ""
        if is_timed(mine) and is_timed(eager):
            ratio = f"{eager['call_ms'][0] / mine['call_ms'][0]:.2f}x"
            equal = [equal_tokens_at_start(a, b) for a, b in zip(mine["tokens"], eager["tokens"], strict=True)]
            alike = f"{min(equal)} of {len(mine['tokens'][0])}"
        lines.append(f"| {work} | {' | '.join(cells)} | {ratio} | {beside_goals(work, mine)} | {alike} |")
        if is_timed(mine):
            by_stage = ", ".join(f"{stage} {ms:.1f}" for stage, ms in mine["stages_ms"].items())
            graphs = f"{mine['graphs']['captured']}, {mine['graphs']['reused']}"
            stages.append(f"| {work} | {mine['first_token_ms'][0]:.2f} | {mine['step_ms']:.3f} |"
                          f" {mine['host_us_a_step']:.1f} | {by_stage} | {graphs} |")  # fmt: skip
    return lines + stages


def is_timed(row: dict | None) -> bool:
    return row is not None and "call_ms" in row


def beside_goals(work: str, row: dict | None) -> str:
    """Each goal of a work, and whether the call reached it."""
    if not is_timed(row):
        return ", ".join(f"{goal:g}" for goal in WORKS[work]["goals"])
    took = row["call_ms"][0]
    return ", ".join(f"{goal:g} reached" if took <= goal else f"**{goal:g} missed**" for goal in WORKS[work]["goals"])


def cell_of_times(row: dict | None) -> str:
    """Median, fastest to slowest, and a step."""
    if not is_timed(row):
        return row[FAILED] if row else ""
    median, fastest, slowest = row["call_ms"]
    return f"{median:.1f} ({fastest:.1f}-{slowest:.1f}; {row['step_ms']:.2f} a step)"


def equal_tokens_at_start(mine: list[int], theirs: list[int]) -> int:
    """How many tokens from the first are the same."""
    return next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))


def figure_in_short(value: Any) -> str:
    """A figure in one line; of [median, fastest, slowest] the median."""
    if is_failure(value):
        return f"failed: {value[FAILED]}"
    if not isinstance(value, dict):
        return str(value)[:200]
    shown = []
    for name, part in value.items():
        is_spread = isinstance(part, list) and len(part) == 3 and all(isinstance(x, int | float) for x in part)
        if is_spread:
            shown.append(f"{name} {part[0]:g} ({part[1]:g}-{part[2]:g})")
        elif isinstance(part, str | int | float):
            shown.append(f"{name} {part:g}" if isinstance(part, float) else f"{name} {part}")
    return ", ".join(shown)[:300]


# ---- the command -----------------------------------------------------------------------------------------------------


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", choices=("cuda", "emulator", "cpu"), default="cuda")
    p.add_argument("--only", default="usual", metavar="PART[,PART]", help=f"parts, or groups of them: {in_groups()}")
    p.add_argument("--quick", action="store_true", help="toy shapes: to see that it runs")
    p.add_argument("--minutes", type=positive_number, help="after which no part goes on  [default: 8; no GPU: 60]")
    p.add_argument("--models", type=Path, metavar="FOLDER", help="where models with random weights are made and kept")
    p.add_argument("--out", type=file_to_write, help="JSON file to write, and to go on with")
    p.add_argument("--readme", type=with_marks("gpu"), help="file whose table between the marks gpu is replaced")
    a = p.parse_args()
    chosen = [part for name in a.only.split(",") for part in groups().get(name.strip(), [name.strip()])]
    if unknown := set(chosen) - set(PARTS):
        p.error(f"argument --only: there is no part {sorted(unknown)[0]}: say {', '.join([*PARTS, *groups()])}")
    try:
        record = measured_parts(chosen, a.out, a.device, a.quick or a.device != "cuda", a.models,
                                60 * (a.minutes or (8 if a.device == "cuda" else 60)))  # fmt: skip
    except KeyboardInterrupt:
        kept = "the same command goes on from here" if a.out else "nothing is kept without --out"
        print(f"gpu.py: interrupted: {kept}", file=sys.stderr)
        raise SystemExit(130) from None
    print(f"\n{tables(record)}")
    if a.readme:
        write_between_markers(a.readme, "gpu", tables(record))


def groups() -> dict[str, list[str]]:
    """Group -> its parts."""
    return {"usual": [name for name, part in PARTS.items() if not part.group],
            "papers": [name for name, part in PARTS.items() if part.group == "papers"],
            "all": list(PARTS)}  # fmt: skip


def in_groups() -> str:
    return "; ".join(f"{group} ({', '.join(parts)})" for group, parts in groups().items() if group != "all") + "; all"


def measured_parts(
    chosen: list[str], out: Path | None, device: str, quick: bool, models: Path | None, seconds: float
) -> dict:  # fmt: skip
    """The record of these parts, as the file keeps it. Raises SystemExit where the device cannot be used."""
    try:
        chosen_device(device)
    except OptionError as error:
        raise SystemExit(f"gpu.py: {error}".replace("device=", "--device ")) from None
    where = describe_machine()
    now = datetime.now(UTC).strftime("%Y-%m-%d")
    name = where.get("gpu", device) if device == "cuda" else device
    results = Results(out, {"device": name, "quick": quick, "date": now, "machine": where, "versions": versions()})
    with tempfile.TemporaryDirectory() as scratch:
        run_parts(chosen, results, device, quick, models or Path(scratch), seconds)
    return results.record


def run_parts(chosen: list[str], results: Results, device: str, quick: bool, models: Path, at_most: float) -> None:
    """The parts in their order; each figure goes to the file as it comes."""
    began, worker = time.monotonic(), Worker(device, quick, models)

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {text}", flush=True)

    try:
        for name in (name for name in PARTS if name in chosen):
            kept = results.part(name)
            if kept["state"] == DONE:
                say(f"{name}: done before")
                continue
            left = at_most - (time.monotonic() - began)
            if left < LEAST_SECONDS:
                say(f"{name}: no time is left for it")
                continue
            part, started = part_on(device, name), time.monotonic()

            def tell(figure: str, value: Any, name: str = name, kept: dict = kept) -> None:
                kept["figures"][figure] = value
                results.save()
                say(f"{name}: {figure}: {figure_in_short(value)}")

            failed = run_part(part, kept["figures"], worker, min(part.limit, left), tell)
            kept |= {"state": failed or DONE, "seconds": round(time.monotonic() - started, 1),
                     "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M")}  # fmt: skip
            results.save()
            say(f"{name}: {kept['state']} ({kept['seconds']:.1f} s)")
    finally:
        worker.end()


def part_on(device: str, name: str) -> Part:
    """A part with its limits for this device."""
    part, times = PARTS[name], 1 if device == "cuda" else SLOWER
    return replace(part, limit=times * part.limit, figure_limit=times * part.figure_limit)


def run_part(part: Part, figures: dict, worker: Worker, seconds: float, tell: Callable[[str, Any], None]) -> str | None:
    """Returns None, or why the part is not done. A figure that hangs or ends its process is left out, once."""
    deadline, tried = time.monotonic() + seconds, set()
    if part.alone:
        worker.end()
    while (left := deadline - time.monotonic()) > LEAST_SECONDS:
        failed, at = worker.run(part, figures, tried, left, tell)
        if failed or part.alone or any(map(is_failure, figures.values())):
            worker.end()  # what comes next gets a device that works
        if at is not None:
            tell(at, {FAILED: failed})
        tried |= {name for name, figure in figures.items() if is_failure(figure)}
        if at is None and failed != LOST:
            break
    if failed:
        return failed
    return "some figures failed" if any(map(is_failure, figures.values())) else None


if __name__ == "__main__":
    main()
