"""`minidecode classify`: the label of each text, or of each token."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import Annotated, Any

import typer

from .completion import complete_model
from .embed import Input, Texts, Truncate, rate_in_words
from .flags import MODEL_HELP, AsJson, Debug, Device, Dtype, Jsonl, PlanText, Quiet, Revision, warn_of_files
from .progress_bar import progress_bar
from .read_texts import read_records_of_command


def classify(
    texts: Texts = None, *,
    model: Annotated[str, typer.Option("--model", "-m", autocompletion=complete_model, help=MODEL_HELP)],
    revision: Revision = None,
    input: Input = None,
    jsonl: Jsonl = False,
    truncate: Truncate = False,
    plan: PlanText = "auto", dtype: Dtype = "float32", device: Device = "cpu",
    as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False,
):  # fmt: skip
    """Find the label of each text, by an encoder with a classifier.

    A line for each text: the label, its score, and the text. If the classifier is one of tokens, a line for each token,
    and an empty line behind each text. A "pair" beside the "prompt" of a JSON line is the second of two texts.
    """
    from .. import load
    from ..errors import InputError

    if not quiet:
        warn_of_files(plan)
    records = read_records_of_command(texts or [], input, jsonl)
    with progress_bar("reading", quiet, unit="texts") as report:
        loaded = load(model, plan=plan, dtype=dtype, device=device, revision=revision)
        started = time.perf_counter()
        given, pairs = [record["prompt"] for record in records], [record.get("pair") for record in records]
        if any(pair is not None for pair in pairs) and not all(isinstance(pair, str) for pair in pairs):
            raise InputError('some lines have a text under "pair" and some have not: give all lines one, or none')
        of_tokens = loaded.is_encoder and loaded.config.labels_tokens
        labels: list[Any]
        if of_tokens:
            if pairs[0] is not None:
                raise InputError('this model labels tokens of single texts: leave "pair" out')
            labels = loaded.classify_tokens(given, truncate=truncate, progress=report)
        else:
            text_pairs = None if pairs[0] is None else pairs
            labels = loaded.classify(given, text_pairs=text_pairs, truncate=truncate, progress=report)
        seconds = time.perf_counter() - started
    for record, one in zip(records, labels, strict=True):
        if as_json:
            result = {"tokens": [dataclasses.asdict(t) for t in one]} if of_tokens else dataclasses.asdict(one)
            print(json.dumps(record | result, ensure_ascii=False))
        elif of_tokens:
            print("".join(f"{t.label:<16} {t.score:8.4f}  {t.text}\n" for t in one))
        else:
            print(f"{one.label:<16} {one.score:8.4f}  {record['prompt']}".replace("\n", "\\n"))
    if not quiet:
        print(f"[{rate_in_words(len(labels), seconds)}; {model}, {dtype}]", file=sys.stderr)
