"""`minidecode generate`: texts continued or answered, one or many."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, OptionError
from ..files.lines import check_picture, path_to_write
from ..lines.pipeline import CUT_CHAT, RunReceipt
from ..lines.records import Line, merge_options, read_record, tokenize_line
from ..runtime.footprint import parse_budget
from .completion import complete_model
from .flags import (
    Debug,
    Device,
    Dtype,
    Jsonl,
    LatentNumbers,
    LatentSeed,
    PlanText,
    Quiet,
    Revision,
    latent_options,
    warn_of_files,
)
from .generate_files import check_on_error, check_prompts, check_resume, failure_summary, run_lines
from .progress_bar import announce_compiling, progress_bar
from .prompts import Prompts, read_prompts_of_command
from .search_flags import with_search_options
from .whole_file import whole_file

EMULATED = "minidecode: the emulator runs kernels thread by thread: a token of tiny-gpt2 can take minutes"


@with_search_options
def generate(
    prompts: Annotated[list[str] | None, typer.Argument(help="Texts to continue; - reads standard input.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", autocompletion=complete_model,
        help="A bundled model, a model folder, or a model on the"
                                       " Hugging Face hub (gpt2, facebook/bart-base), which is downloaded once.")]
    = "tiny-gpt2",
    revision: Revision = None,
    input: Annotated[Path | None, typer.Option("--input", "-i", readable=False, help="File with one prompt per line, or"
                                               ' .jsonl with a "prompt" in each object; - reads standard input.')]
    = None,
    jsonl: Jsonl = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", readable=False, help="Write here, not to stdout;"
                                                 " an existing file is replaced;"
                                                 " the file appears whole at the end; until then, and if the run is"
                                                 " broken off, finished lines are in OUTPUT.part, as they came.")]
    = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per prompt: ids, scores, texts.")] = False,
    logprobs: Annotated[int | None, typer.Option(help="With --json: add each token's text and log-probability, and"
                                                 " those of this many likeliest tokens.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run from its OUTPUT.part.")] = False,
    chat: Annotated[bool, typer.Option("--chat", help="Answer each prompt by the model's chat template.")] = False,
    draft: Annotated[str | None, typer.Option("--draft", autocompletion=complete_model,
        help="A smaller model with the same tokenizer: it guesses tokens, which the model checks together.")] = None,
    latent: LatentNumbers = None,
    latent_seed: LatentSeed = None,
    plan: PlanText = "auto",
    dtype: Dtype = "float32",
    device: Device = "cpu",
    batch_size: Annotated[int, typer.Option(help="Prompts generated together.")] = 8,
    sort_window: Annotated[int | None, typer.Option(help="Lines to sort by length before batching;"
                                                    " the output keeps their order.  [default: 8 batches]")] = None,
    pipeline: Annotated[bool, typer.Option("--pipeline/--no-pipeline", help="Tokenize and decode texts in other"
                                           " threads while the model runs, or one after the other. Same results.")]
    = True,
    on_error: Annotated[str, typer.Option(help="On a bad line: stop, skip it and count it, or record the error (with"
                                          " --json).")] = "stop",
    memory_budget: Annotated[str, typer.Option(help="Memory for a batch beside the weights, such as 2GB, or none for no"
                                               " limit. A batch that needs more is split.")] = "available",
    trace: Annotated[Path | None, typer.Option(help="Write a trace of all threads to this file, in Chrome's format.")]
    = None,
    timeline: Annotated[Path | None, typer.Option(help="Draw that trace into this SVG file.")] = None,
    receipt: Annotated[bool, typer.Option("--receipt", help="Print to stderr what ran, how often, how long.")] = False,
    quiet: Quiet = False, debug: Debug = False,
    *, options: dict[str, Any], defaults: dict[str, Any],
):  # fmt: skip
    """Continue texts, or answer them (BART, T5; --chat).

    Without options: greedily, with the bundled GPT-2.

    Several texts come out one per line, line breaks written as \\n. Options have Hugging Face's names; fairseq's
    spellings work too. With --on-error skip or record the exit code is 0, and 1 if no line could be done.
    """
    import numpy as np

    from .. import load

    truncate = options.pop("truncate")
    if batch_size < 1:
        raise OptionError(f"batch_size must be an integer from 1 up, not {batch_size}")
    check_on_error(on_error, as_json)
    if logprobs is not None and not as_json:
        raise OptionError("logprobs come in JSON objects: say --json too")
    parse_budget(memory_budget)  # what is no amount is an error before a model is loaded
    if chat and truncate:
        raise OptionError(CUT_CHAT)
    _check_output_files(input, output, trace, timeline)
    if not quiet:
        warn_of_files(plan)
        if device == "emulator":
            print(EMULATED, file=sys.stderr)
    # NaN scores are reported in words; NumPy's warnings of what leads there would come on top.
    with read_prompts_of_command(prompts or [], input, jsonl) as given, np.errstate(all="ignore"):
        if resume:
            check_resume(given, output)
        started = time.perf_counter()  # of the work: typing a prompt takes time
        loaded = load(model, plan=plan, dtype=dtype, device=device, revision=revision, **defaults)
        drafter = None if draft is None else load(draft, plan=plan, dtype=dtype, device=device)
        resolved = loaded.options(**(merge_options(loaded, options, {}) if given.is_jsonl else options))
        how = {"truncate": truncate, "memory_budget": memory_budget, "chat": chat} | options
        if on_error == "stop":
            check_prompts(loaded, given, how)
        how |= latent_options(latent, latent_seed)
        aside = output, trace, timeline
        alone = given.is_single and not as_json and resolved.num_return_sequences == 1 and on_error == "stop"
        generation_started, first_token_at = time.perf_counter(), None
        with announce_compiling(loaded.plan, quiet):
            if alone and not any(aside):
                receipts, new_tokens, first_token_at = _generate_alone(loaded, drafter, given, resolved, how)
            else:
                receipts, new_tokens = _generate_many(
                    loaded, given, output, as_json=as_json, quiet=quiet, keep_receipts=receipt, trace=trace,
                    timeline=timeline, resume=resume, batch_size=batch_size, sort_window=sort_window, on_error=on_error,
                    logprobs=logprobs, draft=drafter, overlap="both" if pipeline else "none", **how,
                )  # fmt: skip
        seconds = time.perf_counter() - generation_started
    if not quiet:
        first = f"first token {first_token_at - started:.2f} s after the start; " if first_token_at else ""
        plural = "" if new_tokens == 1 else "s"
        rate = f"{new_tokens} token{plural} in {seconds:.2f} s, {new_tokens / seconds:.1f} tokens/s"
        compiling = sum(r.compile_seconds for r in receipts if hasattr(r, "compile_seconds"))
        rate += f" ({compiling:.1f} s of it compiling, for the first time here)" if compiling else ""
        print(f"[{first}{rate}; {model}, {loaded.plan}]", file=sys.stderr)
    if receipt:
        for text in receipts:
            print(text, file=sys.stderr)


ENDS_BESIDE = (".part", ".part.journal", ".part.journal.new", ".part.sorted")  # of names that a RecordFile takes


def _check_output_files(input: Path | None, output: Path | None, trace: Path | None, timeline: Path | None) -> None:
    """Raises InputError on a file that cannot be written, before a model is fetched."""
    for path in filter(None, (output, trace, timeline)):
        (check_picture if path is timeline else path_to_write)(path)
    beside = [output.with_name(f"{output.name}{end}") for end in ENDS_BESIDE] if output else []
    for path in filter(None, (output, trace, timeline, *beside)):
        if input is not None and path.exists() and input.exists() and path.samefile(input):
            raise InputError(f"{path} is what the prompts are read from: write to another file")


def _generate_alone(loaded, drafter, given: Prompts, resolved, how: dict[str, Any]) -> tuple[list, int, float | None]:
    """A single text, as it grows where it can: (receipts, new tokens, when the first came)."""
    (given_line,) = given.lines
    where, how = f"{given.source} 1", dict(how)
    memory_budget, truncate, chat = how.pop("memory_budget"), how.pop("truncate"), how.pop("chat")
    line = Line(1, given_line, read_record(given_line, given.is_jsonl, where))
    resolved = tokenize_line(loaded, line, where, how, resolved, truncate, chat)
    begun = "" if loaded.is_encoder_decoder or chat else line.record["prompt"]
    before = () if loaded.is_encoder_decoder else line.ids
    printer = Printer(loaded.tokenizer, resolved, before, begun, sys.stdout) if resolved.num_beams == 1 else None
    result = loaded.generate(
        input_ids=[line.ids], prefix_tokens=None if line.prefix is None else [line.prefix], streamer=printer,
        memory_budget=memory_budget, draft=drafter, **merge_options(loaded, how, line.options),
    )  # fmt: skip
    if printer:
        printer.finish()
    else:
        print(result.texts[0], flush=True)
    return [result.receipt], result.receipt.new_tokens, printer and printer.first_token_at


class Printer:
    """Shows a greedy text token by token; on a terminal, after the prompt that it continues."""

    def __init__(self, tokenizer, resolved, before, begun: str, out):
        """before: the ids that the new tokens stand behind. begun: the prompt as it was given."""
        from ..files.tokenizer import TextStream

        self.stream = TextStream(tokenizer, resolved.stop_strings, resolved.keep_stop_strings, before)
        self.out, self.first_token_at = out, None
        if out.isatty():
            print(begun, end="", file=out, flush=True)

    def __call__(self, sentence: int, token_id: int) -> None:
        if self.first_token_at is None:
            self.first_token_at = time.perf_counter()
        print(self.stream.push(token_id), end="", file=self.out, flush=True)

    def finish(self) -> None:
        print(self.stream.finish(), file=self.out, flush=True)


def _generate_many(
    loaded, given: Prompts, output: Path | None, *, quiet: bool, keep_receipts: bool, trace: Path | None,
    timeline: Path | None, **how: Any,
) -> tuple[list[str], int]:  # fmt: skip
    """Line after line, into a file or to standard output: (receipts, new tokens)."""
    batches: list[str] = []
    with progress_bar("generating", quiet or given.is_single, unit="lines") as report:
        if sys.stderr.isatty():
            given.count_prompts()
        run = run_lines(
            loaded, given, output, report=report, show=lambda run: _draw_trace_and_timeline(run, trace, timeline),
            tell=lambda text: quiet or print(f"minidecode: {text}", file=sys.stderr),
            trace=bool(trace or timeline), on_batch=(lambda r: batches.append(str(r))) if keep_receipts else None,
            **how,
        )  # fmt: skip
    if run.failed:
        failures = failure_summary(run, how["on_error"])
        if run.failed == run.reached:
            raise InputError(failures)
        print(f"minidecode: {failures}", file=sys.stderr)
    if len(batches) > 1:
        batches = [f"batch {number} of {len(batches)}\n{text}" for number, text in enumerate(batches, 1)]
    return [*batches, str(run)], run.new_tokens


def _draw_trace_and_timeline(run: RunReceipt, trace: Path | None, timeline: Path | None) -> None:
    """When which thread did what, into the files that are asked for."""
    from ..lines.timeline import chrome_trace, draw_timeline

    if trace is not None:
        with whole_file(trace) as file:
            file.write(json.dumps(chrome_trace(run)))
    if timeline is not None:
        with whole_file(timeline) as file:
            file.write(draw_timeline(run))
