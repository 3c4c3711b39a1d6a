"""`minidecode score`: how likely a model finds texts."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from ..generate_files import finite
from .flags import AsJson, Debug, Device, Dtype, Jsonl, ModelName, Quiet, Revision
from .progress_bar import bar
from .read_texts import read_prompts


def score(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to score; - reads standard input.")] = None,
    model: ModelName = "tiny-gpt2",
    revision: Revision = None,
    input: Annotated[Path | None, typer.Option("--input", "-i", readable=False, help="File with one text per line, or"
                                               ' .jsonl with a "prompt" in each object; - reads standard input. With a'
                                               ' "target" too, that is scored, given the prompt.')] = None,
    jsonl: Jsonl = False,
    stride: Annotated[int | None, typer.Option(help="Tokens from window to window of a text longer than the context."
                                               "  [default: half a context]")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut sources that are too long, on the right.")] = False,
    dtype: Dtype = "float32",
    device: Device = "cpu",
    as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False,
):  # fmt: skip
    """Say how likely a model finds texts: log-probability, perplexity, bits per byte.

    Each token after the first is scored; begin a text with <|endoftext|> to have all of it scored. BART scores targets
    given their sources.
    """
    import numpy as np

    from .. import load

    records = read_prompts(texts or [], input, jsonl, "text")
    targets = _texts_under("target", records)
    with np.errstate(all="ignore"), bar("scoring", quiet) as report:
        loaded = load(model, dtype=dtype, device=device, revision=revision)
        if loaded.is_encoder_decoder and targets is None:
            raise InputError('this model scores targets given their sources: give --input FILE.jsonl with a "prompt"'
                             ' and a "target" in each object')  # fmt: skip
        started = time.perf_counter()
        scores = loaded.score(
            [r["prompt"] for r in records], targets=targets, stride=stride, truncate=truncate, progress=report
        )
        seconds = time.perf_counter() - started
    if as_json:
        each = [r | _scores_as_dict(s, tokens=True) for r, s in zip(records, scores, strict=True)]
        print(json.dumps({"texts": each, "all": _scores_as_dict(scores)}, ensure_ascii=False))
    else:
        _print_scores(targets or [r["prompt"] for r in records], scores)
    if not quiet:
        tokens = int(scores.tokens.sum())
        plural = "" if tokens == 1 else "s"
        rate = f"{tokens / seconds:.1f} tokens/s"
        print(f"[{tokens} token{plural} scored in {seconds:.2f} s, {rate}; {model}, {dtype}]", file=sys.stderr)


def _texts_under(field: str, records: list[dict[str, Any]]) -> list[str] | None:
    """That field of all records, or None if none has it."""
    if not any(field in r for r in records):
        return None
    for number, r in enumerate(records, 1):
        if not isinstance(r.get(field), str):
            raise InputError(f'record {number} of {len(records)} has no text under "{field}": give all one, or none')
    return [r[field] for r in records]


def _scores_as_dict(scores, tokens: bool = False) -> dict[str, Any]:
    """The sums of all texts in `scores`, as JSON can hold them; with `tokens`, of one text the tokens as well."""
    known = scores.bytes is not None
    sums = {
        "tokens": int(scores.tokens.sum()), "bytes": sum(scores.bytes) if known else None,
        "log_prob": finite(scores.log_probs.sum()), "perplexity": finite(scores.perplexity),
        "bits_per_byte": finite(scores.bits_per_byte) if known else None,
    }  # fmt: skip
    if tokens:
        sums["token_ids"] = scores.token_ids[0].tolist()
        sums["token_log_probs"] = [finite(p) for p in scores.token_log_probs[0].tolist()]
    return sums


def _print_scores(texts: list[str], scores) -> None:
    print(f"{'tokens':>8} {'log-prob':>12} {'perplexity':>12} {'bits/byte':>10}  text")
    lines = [(text.replace("\n", "\\n"), s) for text, s in zip(texts, scores, strict=True)]
    for text, s in [*lines, (f"all {len(texts)} texts", scores)] if len(texts) > 1 else lines:
        bits = f"{s.bits_per_byte:.4f}" if s.bytes is not None else "-"
        shown = text if len(text) <= 48 else f"{text[:45]}..."
        print(f"{s.tokens.sum():>8} {s.log_probs.sum():>12.3f} {s.perplexity:>12.3f} {bits:>10}  {shown}")
