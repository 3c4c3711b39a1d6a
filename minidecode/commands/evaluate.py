"""`minidecode evaluate`: generated texts scored against references."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, OptionError, counted
from ..lines.pipeline import check_lines
from ..plan import Plan
from .completion import complete_dtype, complete_model, complete_plan
from .flags import DTYPE_HELP, PLAN_HELP, AsJson, Debug, Quiet, output_flag, warn_of_files
from .progress_bar import announce_compiling, progress_bar
from .read_texts import read_lines, read_records
from .search_flags import with_search_options
from .whole_file import replacement_warning, whole_file


@with_search_options
def evaluate(
    pairs: Annotated[Path | None, typer.Argument(readable=False, help='.jsonl with a "prompt" and a "reference" in each'
                                                 " object, which may be a list of several; - reads standard input.")]
    = None,
    sources: Annotated[Path | None, typer.Option(readable=False, help="In place of PAIRS: a file with one prompt per"
                                                 " line.")] = None,
    references: Annotated[Path | None, typer.Option(readable=False, help="With --sources: a file with their references,"
                                                    " line by line.")] = None,
    model: Annotated[list[str] | None, typer.Option("--model", "-m", autocompletion=complete_model,
        help="A bundled model, a model folder or a hub id;"
                                                    " may repeat.  [default: tiny-gpt2]")] = None,
    plan: Annotated[list[str] | None, typer.Option(autocompletion=complete_plan,
        help=f"{PLAN_HELP} May repeat.  [default: auto]")] = None,
    dtype: Annotated[list[str] | None, typer.Option(autocompletion=complete_dtype,
        help=f"{DTYPE_HELP} May repeat.  [default: float32]")] = None,
    output: Annotated[Path | None, output_flag("Write the generated texts here, as JSONL.")]
    = None,
    tokenizer: Annotated[str | None, typer.Option(
        help="Cut texts into words by: characters, international, or a name of sacrebleu's."
             "  [default: each metric's own, for English]")] = None,
    batch_size: Annotated[int, typer.Option(help="Prompts generated together.")] = 8,
    on_error: Annotated[str, typer.Option(help="On a bad prompt: stop, or skip it in all rows and count it.")]
    = "stop",
    as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False,
    *, options: dict[str, Any], defaults: dict[str, Any],
):  # fmt: skip
    """Score generated texts against references: ROUGE and BLEU.

    One row for each model, plan and precision; the others are compared with the first. The text of a decoder-only model
    is compared without its prompt. With --on-error skip the exit code is 0, and 1 if no prompt could be done.
    """
    import numpy as np

    from .. import load
    from ..bench import quality
    from ..loading import check_dtype

    if on_error not in ("stop", "skip"):
        raise OptionError(f"on_error must be stop or skip, not {on_error!r}")
    for precision in dtype or []:
        check_dtype(precision)
    prompts, references_of = _read_pairs(pairs, sources, references)
    quality.make_scorers(tokenizer)
    plans, truncate = [Plan.parse(p) for p in plan or ["auto"]], options.pop("truncate")
    if not quiet:
        warn_of_files(",".join(plan or []))
    if output is not None and not quiet and (warning := replacement_warning(output)):
        print(f"minidecode: {warning}", file=sys.stderr)
    texts_file = contextlib.nullcontext() if output is None else whole_file(output)
    with texts_file as out, np.errstate(all="ignore"):
        # Refuse what can be refused before anything is computed.
        loaded = {
            (name, precision): load(name, dtype=precision, **defaults)
            for name, precision in itertools.product(model or ["tiny-gpt2"], dtype or ["float32"])
        }
        source = f"{pairs or sources}, line"
        for one in loaded.values():
            one.options(**options)
        for one in loaded.values() if on_error == "stop" else ():
            records = ({"prompt": prompt} for prompt in prompts)
            check_lines(one, records, jsonl=False, source=source, truncate=truncate, **options)
        answers, total = [], len(loaded) * len(plans) * len(prompts)
        compiled = next((p for p in plans if p.may_compile), plans[0])
        with announce_compiling(compiled, quiet), progress_bar("generating", quiet, unit="texts") as report:
            for ((name, _), one), p in itertools.product(loaded.items(), plans):
                done = len(answers) * len(prompts)
                answers.append(quality.answer_prompts(
                    one, prompts, name=name, plan=p, batch_size=batch_size, truncate=truncate, on_error=on_error,
                    source=source, progress=lambda n, done=done: report(done + n, total), **options,
                ))  # fmt: skip
        result = quality.judge_answers(answers, references_of, tokenizer)
        if out:
            _write_answers(out, prompts, references_of, answers)
    if not quiet:
        for a in (a for a in answers if a.failures):
            print(f"minidecode: {a.model}, {a.plan}, {a.dtype}: the first error: {a.failures[0]}", file=sys.stderr)
    print(json.dumps(result.as_dict(), ensure_ascii=False) if as_json else result)


def _read_pairs(pairs: Path | None, sources: Path | None, references: Path | None) -> tuple[list[str], list[Any]]:
    """(prompts, references), from one file or from two."""
    if (pairs is None) == (sources is None) or (sources is None) != (references is None):
        raise InputError("give PAIRS, a .jsonl file, or else both --sources FILE and --references FILE")
    if pairs is None:
        prompts, texts = (_read_text_lines(path) for path in (sources, references))
        if len(prompts) != len(texts):
            raise InputError(
                f"{sources} has {counted(len(prompts), 'line')} and {references} has {len(texts)}: they go in pairs"
            )
        return prompts, texts
    records = read_records(pairs)
    for number, r in enumerate(records, 1):
        texts = r.get("reference")
        if not isinstance(texts, str) and not (
            isinstance(texts, list) and texts and all(isinstance(t, str) for t in texts)
        ):
            raise InputError(f'{pairs}, line {number} should have a text under "reference", or a list of texts')
    return [r["prompt"] for r in records], [r["reference"] for r in records]


def _read_text_lines(path: Path) -> list[str]:
    name, lines = read_lines(path)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise InputError(f"{name}, line {number} is blank: each line goes with the same one of the other file")
    return lines


def _write_answers(out, prompts: list[str], references: list[Any], answers: list[Any]) -> None:
    """Writes one JSON object for each text."""
    for a in answers:
        for prompt, reference, text in zip(prompts, references, a.texts, strict=True):
            record = {"model": a.model, "plan": a.plan, "dtype": a.dtype, "prompt": prompt, "reference": reference}
            print(json.dumps(record | {"text": text}, ensure_ascii=False), file=out)
