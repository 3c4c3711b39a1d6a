"""`minidecode ladder`: one optimization after another, timed."""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ..errors import CheckpointError
from ..files.lines import check_picture
from .completion import complete_model
from .flags import AsJson, Debug, Quiet, output_flag, refuse_given_options
from .interrupts import report_unless_interrupted
from .progress_bar import Report, make_announcer, progress_bar
from .whole_file import whole_file

WORK = (
    "model", "random_weights", "texts", "input_length", "max_new_tokens", "num_beams", "no_repeat_ngram_size",
    "batch_size", "repeats", "seconds", "memory_budget", "cell_seconds", "machine",
)  # fmt: skip


DEFAULT_SECONDS = 90.0
SIZES = ("texts", "input_length", "max_new_tokens", "batch_size")


def ladder(
    context: typer.Context,
    model: Annotated[str, typer.Option("--model", "-m", autocompletion=complete_model,
        help="A bundled model, a model folder or a hub id; with"
                                       " --random-weights also gpt2, bart-base, t5-base and others.")] = "tiny-gpt2",
    random_weights: Annotated[bool, typer.Option("--random-weights", help="Only the shapes are the model's; nothing is"
                                                 " downloaded. No tokenizer, so no pipeline.")] = False,
    texts: Annotated[int, typer.Option(help="Texts that every rung generates.")] = 4,
    input_length: Annotated[int, typer.Option(help="Approximate prompt length in tokens.")] = 64,
    max_new_tokens: Annotated[int, typer.Option(help="New tokens of each, exactly; at least 3.")] = 16,
    num_beams: Annotated[int, typer.Option("--num-beams", "--beam", help="Beams of the search.")] = 4,
    no_repeat_ngram_size: Annotated[int, typer.Option(min=0, help="Ban of repeated n-grams, which has a rung. 0: no"
                                                      " ban, so later rungs may keep HARS.")] = 3,
    batch_size: Annotated[int, typer.Option(help="Texts generated together, up to the last rung, which takes all.")]
    = 2,
    repeats: Annotated[int, typer.Option(help="How often each rung is timed at the end.")] = 3,
    seconds: Annotated[float | None, typer.Option(min=1, help="Take about this long, not counting the compiler and"
                                                  " --memory-budget: sizes that are not given become smaller, and"
                                                  " rungs may be left out.  [default: 90; with a size, no limit]")]
    = None,
    memory_budget: Annotated[str | None, typer.Option(help="Also double the batch, method by method, until it would"
                                                      " need more than this beside the weights, such as 16GB, or what"
                                                      " the machine has left (available).")] = None,
    cell_seconds: Annotated[float, typer.Option(help="Skip batches slower than this, in seconds.")] = 4.0,
    machine: Annotated[list[str] | None, typer.Option(help="Predict for this one too, with its own memory as a cap:"
                                                      " v100, t4, h100 or h200; may repeat.")] = None,
    read: Annotated[Path | None, typer.Option("--read", help="Time nothing: show a file that --json wrote.")] = None,
    output: Annotated[Path | None, output_flag("Draw speedups and shares of time, as SVG.")] = None,
    as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False,
):  # fmt: skip
    """Time one optimization after another on this machine.

    From no cache to all that is fast here (FastSeq, Table 2).

    Each rung adds one: cache, pipeline, n-gram ban, cache de-duplication, EL, fused kernels, HARS, planned memory, low
    precision, a larger batch. Each must give the tokens of the rung before. If a rung is slower, the report explains
    why and drops it.
    """
    import numpy as np

    from ..bench.ladder import ladder as run
    from ..bench.ladder import read_ladder
    from ..bench.machines import known_machines
    from ..runtime.footprint import parse_budget

    if output is not None:
        import matplotlib  # noqa: F401 (what is missing is an error before minutes of work)

        check_picture(output)
    if read is not None:
        refuse_given_options(context, WORK, "with --read, which times nothing")
        measured = read_ladder(read)
    else:
        known_machines(machine or ())
        parse_budget(memory_budget)
        if memory_budget is None:
            refuse_given_options(context, ("cell_seconds",), "without --memory-budget, under which batches are doubled")
        given = {name for name in WORK if context.get_parameter_source(name).name == "COMMANDLINE"}
        if seconds is None and not given & set(SIZES):
            seconds = DEFAULT_SECONDS
        started = time.perf_counter()
        with np.errstate(all="ignore"), progress_bar("loading", quiet) as report:
            announce = _make_name_reporter(report) if report.is_shown else make_announcer("ladder", quiet)
            loaded = _load_model(model, random_weights)
            measured = run(
                loaded, texts=texts, input_length=input_length, max_new_tokens=max_new_tokens, num_beams=num_beams,
                no_repeat_ngram_size=no_repeat_ngram_size, batch_size=batch_size, repeats=repeats,
                memory_budget=memory_budget, cell_seconds=cell_seconds, machine=machine or (), name=model,
                seconds=seconds and max(seconds - (time.perf_counter() - started), 1.0),
                may_shrink=set(SIZES) - given,
                progress=report_unless_interrupted(report), announce=announce,
            )  # fmt: skip
    print(json.dumps(measured.as_dict()) if as_json else measured)
    if output is not None:
        from ..bench.pictures import ladder_in_words, ladder_picture, write_svg

        with whole_file(output) as file:
            write_svg(
                ladder_picture(measured), file, f"The ladder of {measured.work['model']}", ladder_in_words(measured)
            )


def _make_name_reporter(report: Report) -> Callable[[str], None]:
    """On a terminal: what runs, by name alone, so that the bar and its time left fit beside it."""
    return lambda text: report.say(text.partition(":")[0])


def _load_model(model: str, random_weights: bool):
    """The model. Raises CheckpointError, which names --random-weights and a published shape where those would do."""
    from .. import load
    from ..files.published import PUBLISHED

    try:
        return load(model, random_weights=random_weights)
    except CheckpointError as error:
        near = [model] if model in PUBLISHED else difflib.get_close_matches(model, PUBLISHED, n=1)
        if near and not random_weights and not Path(model).is_dir():
            error.args = (f"{error}; or time random weights of that shape: -m {near[0]} --random-weights",)
        raise
