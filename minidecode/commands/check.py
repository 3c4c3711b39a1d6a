"""`minidecode check`: an implementation judged."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..errors import OptionError
from .completion import complete_row
from .flags import AsJson, Debug, NoBar
from .interrupts import report_unless_interrupted
from .progress_bar import progress_bar


def check(
    name: Annotated[str, typer.Argument(autocompletion=complete_row, help="The optimization, such as ngram.")],
    function: Annotated[str | None, typer.Argument(metavar="FILE.py[:FUNCTION]", help="Yours; a module:function works"
                                                   " too.", show_default=False)] = None,
    examples: Annotated[int, typer.Option(min=1, help="Random inputs to try, beside the planted ones.")] = 200,
    as_json: AsJson = False, quiet: NoBar = False, debug: Debug = False,
):  # fmt: skip
    """Check an implementation of an optimization, such as yours.

    The exit code is 0 if it is right on all inputs tried, by the contract of its catalog row (exact, or a tolerance).
    """
    from ..catalog import find
    from ..conformance.check import check as judge
    from ..device.user_functions import find_function

    if function is None:
        raise OptionError(_print_usage_of_row(name))
    row = find(name)  # a wrong name is an error before a file is run
    implementation = find_function(function, row.op)
    with progress_bar(f"checking {name}", quiet) as report:
        verdict = judge(name, implementation, examples=examples, progress=report_unless_interrupted(report))
    if as_json:
        failure = verdict.failure
        print(json.dumps({
            "name": name, "implementation": verdict.implementation, "ok": verdict.ok, "inputs": verdict.inputs,
            "what": failure and failure.what, "mistake": failure and failure.mistake, "warnings": verdict.warnings,
            "left_out": list(map(str, verdict.left_out)), "where": verdict.where,
        }))  # fmt: skip
    else:
        print(verdict)
    if not verdict.ok:
        raise typer.Exit(1)


def _print_usage_of_row(name: str) -> str:
    """Without a function: what the command does, and what to type for this row."""
    from ..catalog import find
    from ..device.user_functions import op_signature

    row = find(name)
    return (
        f"check {row.name} judges a function of yours, and none is given: write {op_signature(row.op)} into"
        f" mine.py, then type minidecode check {row.name} mine.py:{row.op}"
    )
