"""`minidecode embed`: a vector for each text."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, counted
from .flags import AsJson, Debug, Device, Dtype, Jsonl, ModelName, PlanText, Quiet, Revision, output_flag, warn_of_files
from .progress_bar import announce_compiling, progress_bar
from .read_texts import read_records_of_command
from .whole_file import replacement_warning, whole_file

Pooling = Annotated[str | None, typer.Option(help="mean, cls, max or pooler.  [default: as the model's files say]")]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Cut texts that are too long, in front of their last token.")
]
Texts = Annotated[list[str] | None, typer.Argument(help="Texts to read; - reads standard input.")]
INPUT_HELP = 'File with one text per line, or .jsonl with a "prompt" in each object; - reads standard input.'
Input = Annotated[Path | None, typer.Option("--input", "-i", readable=False, help=INPUT_HELP)]


def embed(
    texts: Texts = None,
    model: ModelName = "minilm",
    revision: Revision = None,
    input: Input = None,
    jsonl: Jsonl = False,
    pooling: Pooling = None,
    normalize: Annotated[bool | None, typer.Option("--normalize/--no-normalize", help="Divide vectors by their lengths."
                                                   "  [default: as the model's files say]")] = None,
    truncate: Truncate = False,
    output: Annotated[Path | None, output_flag("NumPy file (.npy) for all vectors; one that"
                                                " exists is replaced.")] = None,
    plan: PlanText = "auto", dtype: Dtype = "float32", device: Device = "cpu",
    as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False,
):  # fmt: skip
    """Turn texts into vectors, by an encoder such as BERT.

    Without --output or --json, a line of numbers for each text. Texts that mean nearly the same have vectors that point
    nearly the same way.
    """
    import numpy as np

    from .. import load

    if output is not None and output.suffix != ".npy":
        raise InputError(f"{output} is written as NumPy's .npy: name it {output.with_suffix('.npy').name}")
    if not quiet:
        warn_of_files(plan)
    records = read_records_of_command(texts or [], input, jsonl)
    with progress_bar("reading", quiet, unit="texts") as report:
        loaded = load(model, plan=plan, dtype=dtype, device=device, revision=revision)
        started = time.perf_counter()
        given = [record["prompt"] for record in records]
        with announce_compiling(loaded.plan, quiet):
            x_BD = loaded.encode(given, pooling=pooling, normalize=normalize, truncate=truncate, progress=report)
        seconds = time.perf_counter() - started
    was_there = output is not None and replacement_warning(output) != ""
    if output is not None:
        with whole_file(output) as file:
            np.save(file.buffer, x_BD)
    if as_json:
        for record, x_D in zip(records, x_BD, strict=True):
            print(json.dumps(record | {"embedding": x_D.tolist()}, ensure_ascii=False))
    elif output is None:
        for x_D in x_BD:
            print(*(f"{number:.6f}" for number in x_D))
    if not quiet:
        where = f", in {output}{' (replaced)' if was_there else ''}" if output is not None else ""
        rate = rate_in_words(len(x_BD), seconds)
        print(f"[{rate}; {x_BD.shape[1]} numbers each{where}; {model}, {dtype}]", file=sys.stderr)


def rate_in_words(texts: int, seconds: float) -> str:
    """How many texts, in what time."""
    return f"{counted(texts, 'text')} in {seconds:.2f} s, {texts / seconds:.1f} texts/s"
