"""`minidecode precompile`: compiled code made beforehand."""

from __future__ import annotations

import json
import time

from .flags import AsJson, Debug, NoBar
from .interrupts import unless_interrupted
from .progress_bar import bar


def precompile(as_json: AsJson = False, quiet: NoBar = False, debug: Debug = False):
    """Compile what --plan fast runs, once on this machine.

    After that no run waits for the compiler, and --plan auto may choose the compiled code. Code for other choices of a
    plan is compiled too.
    """
    from ..search.compiled import all_functions
    from ..search.compiled import precompile as run

    started, total = time.perf_counter(), len(all_functions())
    with bar("compiling", quiet) as report:
        made = run(unless_interrupted(report))
    seconds = time.perf_counter() - started
    if as_json:
        print(json.dumps({"compiled": made, "functions": total, "seconds": seconds}))
    else:
        print(f"{made} of {total} functions compiled in {seconds:.1f} s, {total - made} were on disk")
