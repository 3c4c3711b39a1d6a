"""`minidecode predict`: what the versions of an op's kernels would reach on a GPU that is not here."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from .completion import complete_row
from .flags import AsJson, Debug, NoBar
from .interrupts import report_unless_interrupted
from .progress_bar import progress_bar


def predict(
    name: Annotated[str, typer.Argument(autocompletion=complete_row, help="The op, such as linear.")],
    machine: Annotated[str, typer.Option(help="The GPU: h100.")] = "h100",
    stored: Annotated[str | None, typer.Option("--stored", "--dtype", help="What weights or caches are stored as, such"
                                               " as float16.", show_default=False)] = None,
    megabytes: Annotated[float, typer.Option(min=1, max=8000, help="What the op must move; other sizes take longer.")]
    = 1000,
    as_json: AsJson = False, quiet: NoBar = False, debug: Debug = False,
):  # fmt: skip
    """Predict how near an op's kernels come to a copy; no GPU needed.

    A line for each version: its share of a copy's bandwidth, the limit that stops it, and the share that each limit
    alone would allow. The model reads machine code and emulated blocks; the guide says how well it ranks kernels.
    """
    from ..bench.predict import predict as run

    with progress_bar(f"emulating {name}", quiet) as report:
        prediction = run(name, machine, stored, megabytes, report_unless_interrupted(report))
    print(json.dumps(prediction.as_dict()) if as_json else prediction)
