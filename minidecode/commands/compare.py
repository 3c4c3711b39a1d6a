"""`minidecode compare`: the implementations of an optimization, checked, then timed in interleaved runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, NumericalError, OptionError
from ..files.lines import check_picture
from .completion import complete_row
from .flags import AsJson, Debug, NoBar, output_flag, refuse_given_options
from .interrupts import report_unless_interrupted
from .progress_bar import progress_bar
from .whole_file import whole_file


def compare(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(autocompletion=complete_row,
        help="The optimization, such as ngram.  [default: all of them, which"
                                               " takes minutes]", show_default=False)] = None,
    functions: Annotated[list[str] | None, typer.Argument(metavar="FILE.py:FUNCTION", help="Yours, timed beside"
                                                          " ours; the file is executed.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each implementation is timed.")] = 9,
    machine: Annotated[list[str] | None, typer.Option(help="Predict for this one too: v100, t4, h100 or h200; may"
                                                     " repeat.")] = None,
    stored: Annotated[str | None, typer.Option(help="What weights or caches are stored as: float32, float16 or, of"
                                               " weights, int8, int8_blocks, int4; others are left out.")] = None,
    read: Annotated[list[Path] | None, typer.Option("--read", help="Time nothing: show a file that --json wrote; given"
                                                    " several times, side by side.")] = None,
    output: Annotated[Path | None, output_flag("Draw the roofline, as SVG.")] = None,
    as_json: AsJson = False, quiet: NoBar = False, debug: Debug = False,
):  # fmt: skip
    """Check all implementations of an optimization, then time them.

    They run in turn. A wrong one is not timed.

    Each line has the time, the useful bytes and operations per second, and the share of this machine's limit, which is
    measured in the same run (its roofline). A function of yours gets fresh values in each turn, and each of its results
    is compared.
    """
    from ..bench.compare import table_of_comparisons

    if output is not None:
        import matplotlib  # noqa: F401 (what is missing is an error before minutes of work)

        check_picture(output)
    if read:
        refuse_given_options(context, ("functions", "repeats", "machine", "stored"), "with --read, which times nothing")
        files = _read_comparison_files(read, name)
        drawn = _comparisons_to_draw(files) if output is not None else {}
        if not as_json:
            print(table_of_comparisons(files))
    else:
        if output is not None and name is not None:
            _refuse_roofline_of_bytes(name)
        how = {"functions": functions or (), "repeats": repeats, "machine": machine or (), "stored": stored}
        files = {"this machine": _time_here(name, quiet=quiet, prints=not as_json, debug=debug, **how)}
        drawn = _comparisons_to_draw(files) if output is not None else {}
    if as_json:
        every = [c.as_dict() for comparisons in files.values() for c in comparisons]
        print(json.dumps(every if len(every) > 1 else every[0]))
    if output is not None:
        from ..bench.pictures import draw_roofline, figure_as_svg

        with whole_file(output) as file:
            file.write(figure_as_svg(draw_roofline(drawn)))


def _refuse_roofline_of_bytes(name: str) -> None:
    """Raises OptionError if bytes are what this optimization buys, which have no place under a roofline."""
    from ..catalog import find
    from ..conformance.rows import row_module

    if hasattr(row_module(find(name).name), "bytes_needed"):
        raise OptionError(f"compare {name} has no roofline, for what it buys is bytes: leave out --output")


def _comparisons_to_draw(files: dict[str, list]) -> dict[str, list]:
    """The comparisons that a roofline has a place for: those of speed. Raises OptionError where a file has none."""
    kept = {label: [c for c in comparisons if not c.amounts] for label, comparisons in files.items()}
    if without := [label for label, comparisons in kept.items() if not comparisons]:
        raise OptionError(f"{without[0]} compares bytes alone, which have no roofline: leave out --output")
    return kept


def _read_comparison_files(paths: list[Path], name: str | None) -> dict[str, list]:
    """Name of a file -> its comparisons, all or those of this optimization."""
    from ..bench.compare import read_comparisons

    files = {path.stem: [c for c in read_comparisons(path) if name in (None, c.name)] for path in paths}
    if len(files) < len(paths):
        raise InputError("the files to lay side by side need different names")
    if name is not None and (lacking := [label for label, comparisons in files.items() if not comparisons]):
        raise InputError(f"{lacking[0]} holds no comparison of {name}")
    return files


def _time_here(name: str | None, *, stored: str | None, quiet: bool, prints: bool, debug: bool, **how) -> list:
    """Comparisons of this optimization, or of all that can be stored so; each is printed as soon as it is made."""
    from ..bench.compare import compare as run
    from ..bench.compare import ways_to_store
    from ..catalog import CATALOG, find

    names = [find(name).name] if name else [n for n in CATALOG if stored is None or stored in ways_to_store(n)]
    if not names:
        raise OptionError(f"nothing is stored as {stored!r}: say float32, float16, int8, int8_blocks or int4")
    comparisons = []
    for each in names:
        try:
            with progress_bar(f"checking {each}", quiet) as report:
                comparisons.append(run(each, stored=stored, progress=report_unless_interrupted(report), **how))
        except NumericalError as error:  # with a verdict of several lines, as `check` prints it
            if debug:
                raise
            print(f"minidecode: {error}", file=sys.stderr)
            raise typer.Exit(1) from None
        if prints:
            print(comparisons[-1], end="\n" if each == names[-1] else "\n\n", flush=True)
    return comparisons
