"""`minidecode precompile`: compiled code made beforehand, and for a GPU the choice between kernels and the library."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from .flags import AsJson, Debug, NoBar
from .interrupts import report_unless_interrupted
from .progress_bar import progress_bar


def precompile(
    device: Annotated[str, typer.Option(help="cpu; cuda: measure this GPU; emulator: the same for toys, not kept.")]
    = "cpu",
    as_json: AsJson = False, quiet: NoBar = False, debug: Debug = False,
):  # fmt: skip
    """Compile what --plan fast runs, once on this machine.

    After that no run waits for the compiler, and --plan auto may choose the compiled code. Code for other choices of a
    plan is compiled too.

    With --device cuda, measure from how many rows cuBLAS beats the kernels for few rows, and keep the table on disk.
    Later runs on this GPU follow it. Kernels are compiled when they are first launched, once on a machine.
    """
    from ..device.arrays import chosen_device

    chosen = chosen_device(device)
    if chosen != "cpu":
        return _measure_and_print_crossings(chosen, as_json, quiet)
    from ..search.compiled import all_functions
    from ..search.compiled import precompile as run

    started, total = time.perf_counter(), len(all_functions())
    with progress_bar("compiling", quiet) as report:
        made = run(report_unless_interrupted(report))
    seconds = time.perf_counter() - started
    if as_json:
        print(json.dumps({"compiled": made, "functions": total, "seconds": seconds}))
    else:
        print(f"{made} of {total} functions compiled in {seconds:.1f} s, {total - made} were on disk")
    return None


def _measure_and_print_crossings(device: str, as_json: bool, quiet: bool) -> None:
    from dataclasses import asdict

    from ..bench.library_rows import DECODING, STORED, TOYS, measure_crossing
    from ..device.library_rows import save_library_rows

    crossings: list[Any] = []
    with progress_bar("measuring products", quiet) as report:
        for done, stored in enumerate(STORED):
            report_unless_interrupted(report)(done, len(STORED))
            crossings.append(measure_crossing(stored, device, DECODING if device == "cuda" else TOYS))
    file = save_library_rows({c.stored: c.rows for c in crossings}) if device == "cuda" else None
    if as_json:
        print(json.dumps({"device": device, "kept": file and str(file), "products": [asdict(c) for c in crossings]}))
        return
    for c in crossings:
        rows, last = c.rows, max(c.microseconds)
        print(
            f"{c.stored}: the library from {rows} rows on" if rows <= last else f"{c.stored}: kernels up to {last} rows"
        )
    no_folder = "no folder can be written: set NUMBA_CACHE_DIR to one"
    why_not = no_folder if device == "cuda" else "the emulator's times say nothing of a GPU"
    print(f"kept in {file}" if file else f"not kept: {why_not}")
