"""`minidecode score`: how likely a model finds texts."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..lines.records import number_or_null
from .flags import AsJson, Debug, Device, Dtype, Jsonl, ModelName, Quiet, Revision
from .generate_files import check_on_error, failure_summary
from .progress_bar import progress_bar
from .prompts import read_prompts_of_command


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
    on_error: Annotated[str, typer.Option(help="On a bad text: stop, skip it and count it, or record the error (with"
                                           " --json).")] = "stop",
    source_lang: Annotated[str | None, typer.Option(help="Language of the texts (mBART).")] = None,
    target_lang: Annotated[str | None, typer.Option(help="Language of the targets (Marian, mBART).")] = None,
    dtype: Dtype = "float32",
    device: Device = "cpu",
    as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False,
):  # fmt: skip
    """Score texts: log-probability, perplexity, bits per byte.

    With --on-error skip or record the exit code is 0, and 1 if no text could be done.

    Each token after the first is scored; begin a text with <|endoftext|> to have all of it scored. BART scores targets
    given their sources.
    """
    import numpy as np

    from .. import load
    from ..lines.score_lines import check_texts, score_lines
    from ..methods.scoring import Scores

    check_on_error(on_error, as_json)
    with (
        read_prompts_of_command(texts or [], input, jsonl, "text") as given,
        np.errstate(all="ignore"),
        progress_bar("scoring", quiet, unit="texts") as report,
    ):
        loaded = load(model, dtype=dtype, device=device, revision=revision, source_lang=source_lang,
                      target_lang=target_lang)  # fmt: skip
        how = {"jsonl": given.is_jsonl, "source": given.source, "stride": stride, "truncate": truncate}
        if on_error == "stop" and isinstance(given.lines, list):
            check_texts(loaded, given.lines, **how)
        elif on_error == "stop" and given.again:
            with contextlib.closing(given.again()) as lines:
                given.total = check_texts(loaded, lines, **how)
        given.count_prompts()
        started = time.perf_counter()
        progress = lambda done: report(done, given.total)  # noqa: E731
        with score_lines(loaded, given.lines, on_error=on_error, progress=progress, **how) as run:
            lines = list(run)
        seconds = time.perf_counter() - started
        done = [line for line in lines if not line.error]
        if not done:
            raise run.receipt.failures[0]
        scores = Scores.join([line.scores for line in done])
    if as_json:
        texts = [_line_as_dict(line, loaded.tokenizer) for line in lines]
        print(json.dumps({"texts": texts, "all": _scores_as_dict(scores)}, ensure_ascii=False))
    else:
        _print_scores([line.record.get("target", line.record["prompt"]) for line in done], scores)
    if run.receipt.failed:
        print(f"minidecode: {failure_summary(run.receipt, on_error)}", file=sys.stderr)
    if not quiet:
        tokens = int(scores.tokens.sum())
        plural = "" if tokens == 1 else "s"
        rate = f"{tokens / seconds:.1f} tokens/s"
        print(f"[{tokens} token{plural} scored in {seconds:.2f} s, {rate}; {model}, {dtype}]", file=sys.stderr)


def _line_as_dict(line, tokenizer) -> dict[str, Any]:
    """The record of a line, with its scores; or with its number and "error"."""
    if line.error:
        return (line.record or {}) | {"line": line.number, "error": str(line.error)}
    return line.record | _scores_as_dict(line.scores, tokenizer)


def _scores_as_dict(scores, tokenizer=None) -> dict[str, Any]:
    """The sums of all texts in `scores`, as JSON can hold them; with a tokenizer, of one text the tokens as well."""
    known = scores.bytes is not None
    sums = {
        "tokens": int(scores.tokens.sum()), "bytes": sum(scores.bytes) if known else None,
        "log_prob": number_or_null(scores.log_probs.sum()), "perplexity": number_or_null(scores.perplexity),
        "bits_per_byte": number_or_null(scores.bits_per_byte) if known else None,
    }  # fmt: skip
    if tokenizer is not None:
        sums["token_ids"] = scores.token_ids[0].tolist()
        sums["token_texts"] = [tokenizer.decode([i], keep_special=True) for i in sums["token_ids"]]
        sums["token_log_probs"] = [number_or_null(p) for p in scores.token_log_probs[0].tolist()]
    return sums


def _print_scores(texts: list[str], scores) -> None:
    print(f"{'tokens':>8} {'log-prob':>12} {'perplexity':>12} {'bits/byte':>10}  text")
    lines = [(text.replace("\n", "\\n"), s) for text, s in zip(texts, scores, strict=True)]
    for text, s in [*lines, (f"all {len(texts)} texts", scores)] if len(texts) > 1 else lines:
        bits = f"{s.bits_per_byte:.4f}" if s.bytes is not None else "-"
        shown = text if len(text) <= 48 else f"{text[:45]}..."
        print(f"{s.tokens.sum():>8} {s.log_probs.sum():>12.3f} {s.perplexity:>12.3f} {bits:>10}  {shown}")
