"""The command line: thin over the package. Texts go to stdout, everything about them to stderr."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from . import __version__
from .errors import InputError, MinidecodeError, OptionError
from .exercises.commands import app as exercise_app
from .generate_files import Interrupted, finite
from .line_files import drawable, path_of_prompts, read_record, writable
from .plan import Plan
from .search.trace import FATES
from .search_flags import with_search_options

app = typer.Typer(
    help="Fast transformer decoding you can read: load GPT-2 or BART, generate, and see what ran.",
    rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False,
)  # fmt: skip


app.add_typer(exercise_app, name="exercise")


@app.callback(invoke_without_command=True)
def _global_options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
):
    if version:
        print(f"minidecode {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)


Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
PLAN_HELP = (
    "auto (fast where that pays and its compiled code is on disk, else numpy), numpy (a cache, NumPy's code), naive (no"
    " cache, what each paper starts from) or fast (compiled code, split memory), and choices separated by commas:"
    " memory=replicated, none (no cache), preallocated, split, indirect, rolling (for a model with an attention_window)"
    " or el; and for the rows of the catalog, such as ngram=..., linear=..., hars=...: reference, naive, cpu, cuda,"
    " emulator or FILE.py:FUNCTION (hars and epilogue are off by default); memory_dtype=float16 stores what steps read"
    " of it in half the bytes; arena=none, separate, planned or FILE.py:FUNCTION;"
    " leaving=off keeps the rows of sentences that are done."
)
DTYPE_HELP = "float32 or float64; float16 or int8: how products store their weights, with float32 arithmetic."
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


@app.command()
@with_search_options
def generate(
    prompts: Annotated[list[str] | None, typer.Argument(help="Texts to continue; - reads standard input.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="A bundled model, a model folder, or a model on the"
                                       " Hugging Face hub (gpt2, facebook/bart-base), which is downloaded once.")]
    = "tiny-gpt2",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a model on the hub.  [default: main]")]
    = None,
    input: Annotated[Path | None, typer.Option("--input", "-i", readable=False, help="File with one prompt per line, or"
                                               ' .jsonl with a "prompt" in each object; - reads standard input.')]
    = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Read the input as JSONL whatever its name.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", readable=False, help="Write here, not to stdout;"
                                                 " the file appears whole at the end; until then, and if the run is"
                                                 " broken off, finished lines are in OUTPUT.part.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per prompt: ids, scores, texts.")] = False,
    plan: Annotated[str, typer.Option(help=PLAN_HELP)] = "auto",
    dtype: Annotated[str, typer.Option(help=DTYPE_HELP)] = "float32",
    batch_size: Annotated[int, typer.Option(help="Prompts generated together.")] = 8,
    sort_window: Annotated[int | None, typer.Option(help="Lines among which those of about one length are put together;"
                                                    " the output keeps their order.  [default: 8 batches]")] = None,
    pipeline: Annotated[bool, typer.Option("--pipeline/--no-pipeline", help="Read and tokenize ahead, and make text"
                                           " behind, in threads; or one batch after the other. Same results.")] = True,
    on_error: Annotated[str, typer.Option(help="A line that cannot be done ends the run (stop), is left out and counted"
                                          ' (skip), or comes as an "error" (record; with --json).')] = "stop",
    memory_budget: Annotated[str, typer.Option(help="What a batch may take beside the weights, such as 2GB, or none; a"
                                               " batch that would not fit is cut.")] = "available",
    trace: Annotated[Path | None, typer.Option(help="Write when which thread did what here, in Chrome's trace format.")]
    = None,
    timeline: Annotated[Path | None, typer.Option(help="Draw that into this SVG file.")] = None,
    receipt: Annotated[bool, typer.Option("--receipt", help="Print to stderr what ran, how often, how long.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")] = False,
    debug: Debug = False,
    *, options: dict[str, Any],
):  # fmt: skip
    """Continue texts (GPT-2) or answer them (BART). Without options: greedily, with the bundled GPT-2.

    Several texts come out one per line, line breaks written as \\n. Options have Hugging Face's names; where fairseq
    spells one differently, that is taken too.
    """
    import numpy as np

    from . import load
    from .generate_files import check_prompts, prompts_of
    from .runtime.pipeline import ON_ERROR

    truncate = options.pop("truncate")
    if batch_size < 1:
        raise OptionError(f"batch_size must be a whole number from 1 up, not {batch_size}")
    if on_error not in ON_ERROR:
        raise OptionError(f"on_error must be one of {', '.join(ON_ERROR)}, not {on_error!r}")
    if on_error == "record" and not as_json:
        raise OptionError("on_error=record puts errors into JSON objects: say --json too")
    for path in filter(None, (output, trace, timeline)):
        (drawable if path is timeline else writable)(path)  # told before a model is fetched
        if input is not None and path.exists() and input.exists() and path.samefile(input):
            raise InputError(f"{path} is what the prompts are read from: write to another file")
    started = time.perf_counter()
    # NaN scores are reported in words; NumPy's warnings of what leads there would come on top.
    with prompts_of(prompts or [], input, jsonl) as given, np.errstate(all="ignore"):
        if quiet:  # read when the hub's client is imported, which a local model never does
            os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        loaded = load(model, plan=plan, dtype=dtype, revision=revision)
        resolved = loaded.options(**options)
        how = {"truncate": truncate, "memory_budget": None if memory_budget == "none" else memory_budget} | options
        if on_error == "stop":
            check_prompts(loaded, given, how)
        aside = output, trace, timeline
        alone = given.is_single and not as_json and resolved.num_return_sequences == 1 and on_error == "stop"
        generation_started, first_token_at = time.perf_counter(), None
        if alone and not any(aside):
            receipts, new_tokens, first_token_at = _generate_alone(loaded, given, resolved.num_beams == 1, how)
        else:
            receipts, new_tokens = _generate_many(
                loaded, given, output, as_json=as_json, quiet=quiet, keep_receipts=receipt, trace=trace,
                timeline=timeline, batch_size=batch_size, sort_window=sort_window, on_error=on_error,
                overlap="both" if pipeline else "none", **how,
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


def _generate_alone(loaded, given, streams: bool, how: dict[str, Any]) -> tuple[list, int, float | None]:
    """A single text, as it grows where it can: (receipts, new tokens, when the first came)."""
    (line,) = given.lines
    text = read_record(line, given.is_jsonl, f"{given.source} 1")["prompt"]
    begun = "" if loaded.is_encoder_decoder else text
    printer = _Printer(loaded.tokenizer, begun, sys.stdout) if streams else None
    result = loaded.generate([text], streamer=printer, **how)
    if printer:
        printer.finish()
    else:
        print(result.texts[0], flush=True)
    return [result.receipt], result.receipt.new_tokens, printer and printer.first_token_at


def _generate_many(
    loaded, given, output: Path | None, *, quiet: bool, keep_receipts: bool, trace: Path | None, timeline: Path | None,
    **how: Any,
) -> tuple[list[str], int]:  # fmt: skip
    """Line after line, into a file or to standard output: (receipts, new tokens)."""
    from .generate_files import run_lines
    from .runtime.timeline import chrome_trace, draw_timeline

    def show(run) -> None:
        for path, draw in ((trace, lambda: json.dumps(chrome_trace(run))), (timeline, lambda: draw_timeline(run))):
            if path is not None:
                with _whole_file(path) as file:
                    file.write(draw())

    batches: list[str] = []
    with _bar("generating", quiet or given.is_single, unit="lines") as report:
        if sys.stderr.isatty() and given.total is None and given.again:
            with contextlib.closing(given.again()) as lines:
                given.total = sum(1 for _ in lines)
        run = run_lines(
            loaded, given, output, report=report, show=show, trace=bool(trace or timeline),
            on_batch=(lambda r: batches.append(str(r))) if keep_receipts else None, **how,
        )  # fmt: skip
    if run.failed:
        fate = "left out" if how["on_error"] == "skip" else "with an error"
        told = f"{run.failed} of {run.reached} lines {fate}; the first: {run.failures[0]}"
        print(f"minidecode: {told}", file=sys.stderr)
    if len(batches) > 1:
        batches = [f"batch {number} of {len(batches)}\n{text}" for number, text in enumerate(batches, 1)]
    return [*batches, str(run)], run.new_tokens


@app.command()
@with_search_options
def trace(
    prompt: Annotated[str, typer.Argument(help="The text to continue, or the source.")],
    model: Annotated[str, typer.Option("--model", "-m", help="A bundled model, a model folder or a hub id.")]
    = "tiny-gpt2",
    plan: Annotated[str, typer.Option(help=PLAN_HELP)] = "auto",
    dtype: Annotated[str, typer.Option(help=DTYPE_HELP)] = "float32",
    svg: Annotated[Path | None, typer.Option(help="Draw the beam tree into this file.")] = None,
    against: Annotated[str | None, typer.Option(metavar="OPTION=VALUE,..",
        help="Search again with these changed (dialect=fairseq, plan=memory=none); say where the two part.")]
    = None,
    as_json: Annotated[bool, typer.Option("--json", help="All steps as JSON.")] = False,
    debug: Debug = False,
    *, options: dict[str, Any],
):  # fmt: skip
    """Show a search step by step: candidates, scores, what was ruled out, and which beam goes on where.

    Without a limit, the first 8 new tokens.
    """
    import numpy as np

    from . import load

    if svg is not None:
        drawable(svg)
    if options.get("max_new_tokens") is options.get("max_length") is options.get("max_len_b"):
        options["max_new_tokens"] = 8
    with np.errstate(all="ignore"):
        loaded = load(model, dtype=dtype)
        out = loaded.generate(prompt, plan=plan, trace=True, **options)
        changed = _changes(against)
        other = loaded.generate(prompt, trace=True, **({"plan": plan} | options | changed)) if changed else None
    word = _word_of(loaded.tokenizer)
    if svg is not None:
        from .beam_tree import draw_beam_tree

        with _whole_file(svg) as file:
            file.write(draw_beam_tree(out.trace.of(0), [ids.tolist() for ids in out.token_ids], word))
    verdict = other and _where_they_part(out, other, against, word)
    if as_json:
        texts = [{"text": t, "score": finite(s)} for t, s in zip(out.texts, out.scores, strict=True)]
        print(
            json.dumps(
                {
                    "prompt": prompt,
                    "steps": out.trace.as_list(),
                    "texts": texts,
                    "against": verdict,
                    "against_steps": other and other.trace.as_list(),
                },
                ensure_ascii=False,
            )
        )
        return
    for step in out.trace.of(0):
        _print_step(step, word)
    print("texts, best first")
    for text, score in zip(out.texts, out.scores, strict=True):
        print(f"  {score:8.4f}  {text!r}")
    if verdict:
        print(f"\nagainst {against}: {verdict}")


def _changes(text: str | None) -> dict[str, Any]:
    """Options from "dialect=fairseq,num_beams=2"; values are JSON where they can be, else words."""
    changes = {}
    for part in filter(None, re.split(r",(?=\s*[\w-]+=)", text or "")):
        name, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"--against takes OPTION=VALUE, such as dialect=fairseq, not {part!r}")
        try:
            changes[name.strip().replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            changes[name.strip().replace("-", "_")] = value.strip()
    return changes


def _where_they_part(out, other, changed: str, word) -> str:
    from .search.trace import first_difference

    verdict = first_difference(out.trace.of(0), other.trace.of(0), ("the first", changed), word)
    same_texts = [a.tolist() for a in out.token_ids] == [b.tolist() for b in other.token_ids]
    outcome = "the same texts" if same_texts else "other texts"
    if verdict is None:
        why = "" if same_texts else "; they differ in how finished texts are scored, or in which count at the limit"
        return f"all steps agree, and {outcome} come out{why}"
    return f"{verdict} In the end {outcome} come out."


def _word_of(tokenizer):
    """What to print for a token id."""
    return lambda i: str(i) if tokenizer is None else tokenizer.decode([i], keep_special=True).replace("\n", "\\n")


def _print_step(step, word) -> None:
    group = f", group {step.group + 1}" if step.group else ""
    print(f"step {step.step + 1}{group}")
    for w, running in enumerate(step.running):
        print(f"  beam {w}: {''.join(map(word, running))!r}")
    for c in step.candidates:
        fate = f"becomes beam {c.beam}" if c.beam is not None else FATES[c.fate]
        print(f"  {c.score:10.4f}  beam {c.parent} + {word(c.token)!r:<16} {fate}")
    for name, pairs in step.changed.items():
        shown = ", ".join(f"beam {w} {word(v)!r}" for w, v in pairs[:6])
        print(f"  {name} changed {len(pairs)} scores: {shown}{', ...' if len(pairs) > 6 else ''}")


@app.command("plan")
@with_search_options
def plan_memory(
    model: Annotated[str, typer.Argument(help="A bundled model, a model folder, a hub id, or the name of a published"
                                         " shape (gpt2, gpt2-medium, bart-base, bart-large, distilbart-12-6). No"
                                         " weights are needed.")] = "tiny-gpt2",
    batch_size: Annotated[int, typer.Option(help="Prompts, or sources, generated together.")] = 1,
    input_length: Annotated[int, typer.Option(help="The most tokens of each.")] = 1,
    vocab_size: Annotated[int | None, typer.Option(min=1, help="Another vocabulary than the model's.")] = None,
    plan: Annotated[str, typer.Option(help=PLAN_HELP)] = "auto",
    dtype: Annotated[str, typer.Option(help=DTYPE_HELP)] = "float32",
    svg: Annotated[Path | None, typer.Option(help="Draw the plan into this file: calls against offsets.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
    *, options: dict[str, Any],
):  # fmt: skip
    """Plan the memory of a decode step: every intermediate, when it lives, and where it lies in one arena.

    Learnt from a dry run of one step at the largest shapes that the options allow (--beam, --max-new-tokens, ...). The
    largest intermediates are printed; --json has all of them.
    """
    from .model import load_shapes

    options.pop("truncate")
    if svg is not None:
        drawable(svg)
    loaded = load_shapes(model, plan=plan, dtype=dtype, vocab_size=vocab_size)
    step = loaded.plan_step(batch_size=batch_size, input_length=input_length, **options)
    if svg is not None:
        from .runtime.plan_picture import draw_plan

        with _whole_file(svg) as file:
            file.write(draw_plan(step, f"{model}: a step of {step.extent}"))
    print(json.dumps(step.as_dict()) if as_json else step)


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="The optimization, such as ngram.")],
    function: Annotated[str, typer.Argument(metavar="FILE.py:FUNCTION", help="Yours; a module:function works too.")],
    examples: Annotated[int, typer.Option(min=1, help="Random inputs to try, beside the planted ones.")] = 200,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    debug: Debug = False,
):
    """Judge an implementation: exit code 0 if it is right on all inputs tried, and as good as the row promises."""
    from .catalog import find
    from .conformance.check import check as judge
    from .user_functions import find_function

    find(name)  # a wrong name is told before a file is run
    with _bar(f"checking {name}", quiet) as report:
        verdict = judge(name, find_function(function), examples=examples, progress=_unless_interrupted(report))
    if as_json:
        failure = verdict.failure
        print(json.dumps({
            "name": name, "implementation": verdict.implementation, "ok": verdict.ok, "inputs": verdict.inputs,
            "what": failure and failure.what, "mistake": failure and failure.mistake, "warnings": verdict.warnings,
        }))  # fmt: skip
    else:
        print(verdict)
    if not verdict.ok:
        raise typer.Exit(1)


@app.command()
def compare(
    name: Annotated[str | None, typer.Argument(help="The optimization, such as ngram.  [default: all of them, which"
                                               " takes minutes]", show_default=False)] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each implementation.")] = 9,
    machine: Annotated[list[str] | None, typer.Option(help="Predict for this one too: v100, t4 or h200; may be given"
                                                      " several times.")] = None,
    stored: Annotated[str | None, typer.Option(help="What weights or memories are stored as: float32, float16 or, of"
                                               " weights, int8; the names without them are left out.")] = None,
    read: Annotated[list[Path] | None, typer.Option("--read", help="Time nothing: show a file that --json wrote; given"
                                                    " several times, side by side.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the roofline, as SVG.")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    debug: Debug = False,
):  # fmt: skip
    """Check all implementations of an optimization, then time them by turns; refuses to time a wrong one.

    Beside each time stand the useful bytes and operations per second, and the share of what this machine, measured in
    the same run, allows at the most (its roofline).
    """
    from .bench.compare import compare as run
    from .bench.compare import read_comparisons, side_by_side, stored_as
    from .catalog import CATALOG, find

    if plot is not None:
        import matplotlib  # noqa: F401 (what is missing is told before minutes of work)

        drawable(plot)
    if read:
        files = {path.stem: [c for c in read_comparisons(path) if name in (None, c.name)] for path in read}
        if len(files) < len(read):
            raise InputError("the files to lay side by side need different names")
        if name is not None and (lacking := [label for label, found in files.items() if not found]):
            raise InputError(f"{lacking[0]} holds no comparison of {name}")
    else:
        names = [find(name).name] if name else [n for n in CATALOG if stored is None or stored in stored_as(n)]
        if not names:
            raise OptionError(f"nothing is stored as {stored!r}: say float32, float16 or int8")
        found = []
        for each in names:
            with _bar(f"checking {each}", quiet) as report:
                given = {"repeats": repeats, "machine": machine or (), "stored": stored}
                found.append(run(each, **given, progress=_unless_interrupted(report)))
            if not as_json:
                print(found[-1], end="\n" if each == names[-1] else "\n\n", flush=True)
        files = {"this machine": found}
    if read and not as_json:
        print(side_by_side(files))
    if as_json:
        every = [c.as_dict() for found in files.values() for c in found]
        print(json.dumps(every if len(every) > 1 else every[0]))
    if plot is not None:
        from .bench.pictures import roofline

        with _whole_file(plot) as file:
            roofline(files).savefig(file, format="svg", metadata={"Date": None})


@app.command()
def ladder(
    model: Annotated[str, typer.Option("--model", "-m", help="A bundled model, a model folder or a hub id; with"
                                       " --random-weights also gpt2, gpt2-medium, bart-base, bart-large,"
                                       " distilbart-12-6.")] = "tiny-gpt2",
    random_weights: Annotated[bool, typer.Option("--random-weights", help="Only the shapes are the model's; nothing is"
                                                 " downloaded. No tokenizer, so no pipeline.")] = False,
    texts: Annotated[int, typer.Option(help="Texts that every rung generates.")] = 4,
    input_length: Annotated[int, typer.Option(help="Tokens of each, about.")] = 64,
    max_new_tokens: Annotated[int, typer.Option(help="New tokens of each, exactly.")] = 16,
    num_beams: Annotated[int, typer.Option("--num-beams", "--beam", help="Beams of the search.")] = 4,
    no_repeat_ngram_size: Annotated[int, typer.Option(min=0, help="The ban whose compiled code is a rung; with 0 there"
                                                      " is none, and HARS goes on to the later rungs.")] = 3,
    batch_size: Annotated[int, typer.Option(help="Texts generated together, up to the last rung, which takes all.")]
    = 2,
    repeats: Annotated[int, typer.Option(help="Turns of all rungs.")] = 3,
    memory_budget: Annotated[str | None, typer.Option(help="Also double the batch, method by method, until it would"
                                                      " need more than this beside the weights, such as 16GB, or what"
                                                      " the machine has left (available).")] = None,
    cell_seconds: Annotated[float, typer.Option(help="No batch that would take longer is timed there.")] = 4.0,
    machine: Annotated[list[str] | None, typer.Option(help="Predict for this one too, with its own memory as a cap:"
                                                      " v100, t4 or h200; may be given several times.")] = None,
    read: Annotated[Path | None, typer.Option("--read", help="Time nothing: show a file that --json wrote.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw speedups and shares of time, as SVG.")] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")] = False,
    debug: Debug = False,
):  # fmt: skip
    """Time one optimization after another on this machine, from no cache to all that is fast here (FastSeq, Table 2).

    Each rung adds a switch: cache, pipeline, n-gram ban, cache de-duplication, EL, fused kernels, HARS, planned memory,
    low precision, a larger batch. Its tokens must be those of the rung before; one that loses here says why, and is not
    carried on.
    """
    import numpy as np

    from . import load
    from .bench.ladder import ladder as run
    from .bench.ladder import read_ladder

    if plot is not None:
        import matplotlib  # noqa: F401 (what is missing is told before minutes of work)

        drawable(plot)
    if read is not None:
        found = read_ladder(read)
    else:
        with np.errstate(all="ignore"), _bar("climbing", quiet) as report:
            loaded = load(model, random_weights=random_weights)
            found = run(
                loaded, texts=texts, input_length=input_length, max_new_tokens=max_new_tokens, num_beams=num_beams,
                no_repeat_ngram_size=no_repeat_ngram_size, batch_size=batch_size, repeats=repeats,
                memory_budget=memory_budget, cell_seconds=cell_seconds, machine=machine or (), name=model,
                progress=report, announce=_line_off_a_terminal("ladder", quiet),
            )  # fmt: skip
    print(json.dumps(found.as_dict()) if as_json else found)
    if plot is not None:
        from .bench.pictures import ladder_in_words, ladder_picture, write_svg

        with _whole_file(plot) as file:
            write_svg(ladder_picture(found), file, f"The ladder of {found.work['model']}", ladder_in_words(found))


@app.command()
def score(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to score; - reads standard input.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="A bundled model, a model folder or a hub id.")]
    = "tiny-gpt2",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a model on the hub.  [default: main]")]
    = None,
    input: Annotated[Path | None, typer.Option("--input", "-i", readable=False, help="File with one text per line, or"
                                               ' .jsonl with a "prompt" in each object; - reads standard input. With a'
                                               ' "target" too, that is scored, given the prompt.')] = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Read the input as JSONL whatever its name.")] = False,
    stride: Annotated[int | None, typer.Option(help="Tokens from window to window of a text longer than the context."
                                               "  [default: half a context]")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut sources that are too long, on the right.")] = False,
    dtype: Annotated[str, typer.Option(help=DTYPE_HELP)] = "float32",
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")] = False,
    debug: Debug = False,
):  # fmt: skip
    """Say how likely a model finds texts: log-probability, perplexity, bits per byte.

    Each token after the first is scored; begin a text with <|endoftext|> to have all of it scored. BART scores targets
    given their sources.
    """
    import numpy as np

    from . import load

    records = _read_prompts(texts or [], input, jsonl, "text")
    targets = _texts_under("target", records)
    with np.errstate(all="ignore"), _bar("scoring", quiet) as report:
        loaded = load(model, dtype=dtype, revision=revision)
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


@app.command()
@with_search_options
def evaluate(
    pairs: Annotated[Path | None, typer.Argument(readable=False, help='.jsonl with a "prompt" and a "reference" in each'
                                                 " object, which may be a list of several; - reads standard input.")]
    = None,
    sources: Annotated[Path | None, typer.Option(readable=False, help="Instead: a file with one prompt per line,")]
    = None,
    references: Annotated[Path | None, typer.Option(readable=False, help="and one with their references, line by line."
                                                    )] = None,
    model: Annotated[list[str] | None, typer.Option("--model", "-m", help="A bundled model, a model folder or a hub id;"
                                                    " may repeat.  [default: tiny-gpt2]")] = None,
    plan: Annotated[list[str] | None, typer.Option(help=f"{PLAN_HELP} May repeat.  [default: auto]")] = None,
    dtype: Annotated[list[str] | None, typer.Option(help=f"{DTYPE_HELP} May repeat.  [default: float32]")] = None,
    output_texts: Annotated[Path | None, typer.Option(readable=False, help="Write what was generated here, as JSONL.")]
    = None,
    batch_size: Annotated[int, typer.Option(help="Prompts generated together.")] = 8,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")] = False,
    debug: Debug = False,
    *, options: dict[str, Any],
):  # fmt: skip
    """Hold generated texts against references: ROUGE and BLEU, a row for each model, plan and precision.

    What a decoder-only model says is held against the reference without its prompt. The first row is what the others
    are compared with. Needs the packages of the extra `evaluate`.
    """
    import numpy as np

    from . import load, quality

    quality.packages()
    prompts, references_of = _read_pairs(pairs, sources, references)
    plans, truncate = [Plan.parse(p) for p in plan or ["auto"]], options.pop("truncate")
    texts_file = contextlib.nullcontext() if output_texts is None else _whole_file(output_texts)
    with texts_file as out, np.errstate(all="ignore"):
        # Refuse what can be refused before anything is computed.
        loaded = {
            (name, precision): load(name, dtype=precision)
            for name, precision in itertools.product(model or ["tiny-gpt2"], dtype or ["float32"])
        }
        for one in loaded.values():
            one.check(prompts, truncate=truncate, **options)
        answers, total = [], len(loaded) * len(plans) * len(prompts)
        with _bar("generating", quiet) as report:
            for ((name, _), one), p in itertools.product(loaded.items(), plans):
                done = len(answers) * len(prompts)
                answers.append(quality.answer(
                    one, prompts, name=name, plan=p, batch_size=batch_size, truncate=truncate,
                    progress=lambda n, done=done: report(done + n, total), **options,
                ))  # fmt: skip
        result = quality.judge(answers, references_of)
        if out:
            _write_answers(out, prompts, references_of, answers)
    print(json.dumps(result.as_dict(), ensure_ascii=False) if as_json else result)


def _read_pairs(pairs: Path | None, sources: Path | None, references: Path | None) -> tuple[list[str], list[Any]]:
    """(prompts, references), from one file or from two."""
    if (pairs is None) == (sources is None) or (sources is None) != (references is None):
        raise InputError("give PAIRS, a .jsonl file, or else both --sources FILE and --references FILE")
    if pairs is None:
        prompts, texts = (_read_text_lines(path) for path in (sources, references))
        if len(prompts) != len(texts):
            raise InputError(f"{sources} has {len(prompts)} lines and {references} has {len(texts)}: they go in pairs")
        return prompts, texts
    records = _read_prompts([], pairs, jsonl=True)
    for number, r in enumerate(records, 1):
        texts = r.get("reference")
        if not isinstance(texts, str) and not (
            isinstance(texts, list) and texts and all(isinstance(t, str) for t in texts)
        ):
            raise InputError(f'{pairs}, line {number} should have a text under "reference", or a list of texts')
    return [r["prompt"] for r in records], [r["reference"] for r in records]


def _read_text_lines(path: Path) -> list[str]:
    name, lines = _read_lines(path)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise InputError(f"{name}, line {number} is blank: each line goes with the same one of the other file")
    return lines


def _write_answers(out, prompts: list[str], references: list[Any], answers: list[Any]) -> None:
    """One JSON object for each text."""
    for a in answers:
        for prompt, reference, text in zip(prompts, references, a.texts, strict=True):
            record = {"model": a.model, "plan": a.plan, "dtype": a.dtype, "prompt": prompt, "reference": reference}
            print(json.dumps(record | {"text": text}, ensure_ascii=False), file=out)


@app.command()
def convert(
    model: Annotated[str, typer.Argument(metavar="FOLDER", help="A model folder, a bundled model or a hub id.")],
    kv_heads: Annotated[int, typer.Option(help="Key/value heads of the new model; 1 makes it multi-query.")],
    out: Annotated[Path, typer.Option(readable=False, help="The new folder: it appears whole, or not at all.")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a model on the hub.  [default: main]")]
    = None,
    as_json: AsJson = False,
    debug: Debug = False,
):  # fmt: skip
    """Make a model with fewer key/value heads, each the mean of several: a different model, which needs training."""
    import numpy as np

    from .head_pooling import convert as run

    with np.errstate(all="ignore"), _bar("converting", quiet=False) as report:
        result = run(model, out, num_key_value_heads=kv_heads, revision=revision, progress=report)
    print(json.dumps(result.as_dict()) if as_json else result)


@app.command()
def models(as_json: AsJson = False, debug: Debug = False):
    """List the models that ship with the package, and GPT-2 and BART models in the Hugging Face cache."""
    from .model import bundled_models, read_settings

    rows = []
    folders = [(name, folder, "bundled") for name, folder in bundled_models().items()]
    folders += [(name, folder, "cached") for name, folder in _cached_models()]
    for name, folder, where in folders:
        family, c, _ = read_settings(folder, None)
        weights = [f for pattern in ("*.safetensors", "*.bin") for f in folder.glob(pattern) if f.exists()]
        rows.append(
            {"name": name, "where": where, "model_type": family.name, "layers": c.layers, "width": c.width,
             "context": c.context, "vocabulary": c.vocab_size,
             "megabytes": round(sum(f.stat().st_size for f in weights) / 1e6, 1), "folder": str(folder)}
        )  # fmt: skip
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(
            f"{row['name']}  ({row['where']}, {row['megabytes']} MB)  {row['model_type']}, {row['layers']} layers, "
            f"width {row['width']}, context {row['context']}, vocabulary {row['vocabulary']}\n    {row['folder']}"
        )


@app.command()
def tutorial(
    chapter: Annotated[str, typer.Argument(help="Its number or its name; without one, all are listed.")] = "",
    out: Annotated[Path | None, typer.Option("--out", help="The notebook; NN_name.ipynb by default.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
):
    """List the chapters of the course, or write one as a notebook."""
    from .course.chapters import chapters, find_chapter

    if not chapter:
        rows = [
            {"chapter": c.number, "title": c.title, "minutes": c.minutes[0], "with_exercises": c.minutes[1],
             "file": str(c.path)}
            for c in chapters()
        ]  # fmt: skip
        if as_json:
            print(json.dumps(rows, indent=1))
            return
        for row in rows:
            says = f"{row['chapter']}  {row['title']}"
            print(f"{says:<44} {row['minutes']} minutes, {row['with_exercises']} with exercises")
        return
    found = find_chapter(chapter)
    path = out or Path(f"{found.path.stem}.ipynb")
    if path.exists():
        raise InputError(f"{path} is there already, perhaps with your work in it: give another name with --out")
    writable(path).write_text(found.notebook(), encoding="utf-8")
    print(json.dumps({"chapter": found.number, "file": str(path)}) if as_json else f"wrote {path}")


@app.command()
def warm(
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    debug: Debug = False,
):
    """Compile what plan=fast runs, for all models, once on this machine: no run waits for it, and auto may take it."""
    from .runtime.compiled import all_functions
    from .runtime.compiled import warm as run

    started, total = time.perf_counter(), len(all_functions())
    with _bar("compiling", quiet) as report:
        made = run(_unless_interrupted(report))
    seconds = time.perf_counter() - started
    if as_json:
        print(json.dumps({"compiled": made, "functions": total, "seconds": seconds}))
    else:
        print(f"{made} of {total} functions compiled in {seconds:.1f} s, {total - made} were on disk")


@app.command()
def doctor(
    for_class: Annotated[bool, typer.Option("--class", help="Run once what a class will run, and say what is not"
                                            " ready; exit code 1 then.")] = False,
    wheels: Annotated[Path | None, typer.Option("--wheels", help="With --class: fill this folder with the wheels that a"
                                                " room without network installs from.")] = None,
    as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """Say what this machine has for minidecode, what is missing, and the command that adds it."""
    if wheels is not None and not for_class:
        raise OptionError("--wheels goes with --class")
    if for_class:
        _ready_for_class(wheels, as_json)
        return
    import platform
    from importlib import metadata

    from .model import bundled_models

    extras = {"numba-cuda": "cu12", "torch": "oracle", "transformers": "oracle", "pytest": "test", "hypothesis": "test",
              "rouge-score": "evaluate", "sacrebleu": "evaluate", "matplotlib": "plots"}  # fmt: skip
    packages, missing = {}, {}
    for name in ("numpy", "numba", "scipy", "tokenizers", "safetensors", "huggingface_hub", "threadpoolctl", *extras):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = None
            missing[name] = f"pip install 'minidecode[{extras[name]}]'" if name in extras else f"pip install {name}"
    try:
        from .device import device_kind

        device = device_kind()
    except ImportError:
        device = "unknown, for numba is missing"
    try:
        import numpy  # noqa: F401  (so that its BLAS is loaded and can be asked)
        from threadpoolctl import threadpool_info

        blas = [i for i in threadpool_info() if i["user_api"] == "blas"]
    except ImportError:
        blas = []

    try:
        from .runtime.compiled import how_many_on_disk

        on_disk, functions = how_many_on_disk()
        compiled = {"functions": functions, "on_disk": on_disk}
    except (ImportError, RuntimeError):  # no Numba, or no folder that it may write into
        compiled = None

    report: dict[str, Any] = {
        "minidecode": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "blas": [
            {"library": i["internal_api"], "version": i.get("version"), "threads": i["num_threads"],
             "kernels": i.get("architecture"), "advice": _wider_kernels(i.get("architecture"))}
            for i in blas
        ],
        "device": device,
        "compiled": compiled,
        "packages": packages,
        "missing": missing,
        "bundled_models": list(bundled_models()),
    }  # fmt: skip
    if as_json:
        print(json.dumps(report, indent=1))
        return
    for name in ("minidecode", "python", "platform", "cores"):
        print(f"{name:<16} {report[name]}")
    for blas in report["blas"]:
        kernels = f", kernels for {blas['kernels']}" if blas["kernels"] else ""
        print(f"{'BLAS':<16} {blas['library']} {blas['version']}, {blas['threads']} threads{kernels}{blas['advice']}")
    remedy = " (no CUDA GPU found; everything runs on the CPU. With an NVIDIA GPU: pip install 'minidecode[cu12]')"
    print(f"{'device':<16} {report['device']}{remedy if report['device'] == 'none' else ''}")
    if compiled is not None:
        rest = "" if on_disk == functions else " (minidecode warm compiles the others, once)"
        print(f"{'compiled code':<16} {on_disk} of {functions} functions on disk{rest}")
    print(f"{'bundled models':<16} {', '.join(report['bundled_models'])}")
    for name, version in packages.items():
        print(f"{name:<16} {version or f'missing: {missing[name]}'}")


def _ready_for_class(wheels: Path | None, as_json: bool) -> None:
    """What a class needs, line by line."""
    from .exercises.classroom import fill_with_wheels, ready

    found = []
    for each in ready():
        found.append(each)
        if not as_json:
            print(f"{'ready' if each.ok else 'NOT READY':<10} {each.name}: {each.told}", flush=True)
    if wheels is not None:
        fill_with_wheels(wheels)
        if not as_json:
            print(f"wheels are in {wheels}; there: pip install --no-index --find-links {wheels} minidecode")
    if as_json:
        print(json.dumps([vars(each) for each in found]))
    if not all(each.ok for each in found):
        raise typer.Exit(1)


def _wider_kernels(kernels: str | None) -> str:
    """What to set where OpenBLAS does not know a processor with AVX-512, and takes it for one without (measured)."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("flags")[2].partition("\n")[0].split()
    except OSError:
        return ""
    if kernels not in ("Haswell", "Zen") or not {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(flags):
        return ""
    return (
        " (this processor has AVX-512: set OPENBLAS_CORETYPE=SkylakeX in the environment for large products up to twice"
        " as fast; those of 2 to 12 rows are slower, which plan=fast does without BLAS)"
    )


_INTERRUPTED = threading.Event()


def _interrupt(*_) -> None:
    _INTERRUPTED.set()
    raise KeyboardInterrupt


def _unless_interrupted(report: Callable[[float, int], None]) -> Callable[[float, int], None]:
    """The same, but an interrupt that was lost is raised again: Python drops what is raised while it collects garbage,
    and hypothesis has a hook there."""

    def call(done: float, total: int) -> None:
        if _INTERRUPTED.is_set():
            raise KeyboardInterrupt
        report(done, total)

    return call


class _Terminated(BaseException):
    """Somebody asked the program to end. No `except SystemExit` of a user's function holds it up."""


def _terminate(*_) -> None:
    raise _Terminated


def main() -> None:
    """Runs a command; an error that a user can mend is one line on stderr and exit code 1, or 2 for bad usage."""
    debug = "--debug" in sys.argv[1:]
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(tempfile.gettempdir(), "minidecode-hypothesis"))
    _INTERRUPTED.clear()
    signal.signal(signal.SIGTERM, _terminate)  # through the clean-up, as an interrupt goes
    signal.signal(signal.SIGINT, _interrupt)
    for name, mode in [("stdin", "r"), ("stdout", "w"), ("stderr", "w")]:
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (it stays open to the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # texts are UTF-8 wherever they go, as --output is
    try:
        code = typer.main.get_command(app)(prog_name="minidecode", standalone_mode=False)
        if code == 130:  # what the command-line library makes of an interrupt, without a word
            raise KeyboardInterrupt
        sys.stdout.flush()  # here, where a full disk or a closed pipe can still be told
    except MinidecodeError as error:
        code = _fail(str(error), 1, debug)
    except BrokenPipeError:  # whoever read our output has gone: not our error, and nothing to say
        _give_up_stdout()
        code = 1
    except OSError as error:  # without a name it comes from writing our output
        code = _fail(f"{error.filename or 'the output cannot be written'}: {error.strerror or error}", 1, debug)
        _give_up_stdout()
    except _Terminated:
        code = 143
    except Interrupted as interrupted:
        code = _fail(str(interrupted), 130, debug)
    except (KeyboardInterrupt, typer.Abort):
        code = _fail("interrupted", 130, debug)
    except MemoryError as error:
        code = _fail(f"not enough memory: {error}; use a smaller --batch-size or --num-beams", 1, debug)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("minidecode"):
            raise
        code = _fail(f"the package {error.name} is missing: pip install {error.name}", 1, debug)
    except Exception as error:
        if not hasattr(error, "format_message"):  # not the command-line library's own complaint: a bug, shown whole
            raise
        command = error.ctx.command_path if getattr(error, "ctx", None) else "minidecode"
        message = error.format_message().rstrip(".")
        if "No such option" in message:
            message += _of_a_dash(message, error.ctx)
        code = _fail(f"{message} (see {command} --help)", 2, debug)
    sys.exit(code or 0)


def _of_a_dash(message: str, context: Any) -> str:
    """What may have been meant by a word with a dash that is no option of this command: a text, or an exercise."""
    arguments = {p.name for p in context.command.params if p.param_type_name == "argument"} if context else set()
    for name, what in (("prompts", "prompt"), ("prompt", "prompt"), ("texts", "text")):
        if name in arguments:
            return f"; a {what} that begins with - goes behind all options and --"
    if "exercise" in arguments and re.search(r" -\d", message):
        return "; an exercise is one of the numbers or names of minidecode exercise list"
    return ""


def _give_up_stdout() -> None:
    """Lets Python's last flush go nowhere: it would fail as the writing did, and say so in its own words."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"minidecode: {' '.join(message.split())}", file=sys.stderr)
    return code


def _read_prompts(
    arguments: list[str], path: Path | None, jsonl: bool, what: str = "prompt"
) -> list[dict[str, Any]]:  # fmt: skip
    """Records with a "prompt" each, from the arguments or from a file or standard input, never from both."""
    path = path_of_prompts(arguments, path, what)
    if path is None:
        return [{"prompt": text} for text in arguments]
    name, lines = _read_lines(path)
    is_jsonl = jsonl or path.suffix == ".jsonl"
    return [read_record(line, is_jsonl, f"{name}, line {i}", what) for i, line in enumerate(lines, 1)]


def _read_lines(path: Path) -> tuple[str, list[str]]:
    """(the name to call it by, lines without their ends) of a file or, for -, of standard input: UTF-8, not empty."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        data, at = error.object, error.start  # the decoder's own: without the byte order mark
        line = data[:at].count(b"\n") + 1
        raise InputError(
            f"{name} is not UTF-8: byte 0x{data[at]:02x} on line {line}; convert it to UTF-8 first"
        ) from None
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if not lines:
        raise InputError(f"{name} is empty: write one text per line")
    return name, [line.removesuffix("\r") for line in lines]


@contextlib.contextmanager
def _whole_file(path: Path | None) -> Iterator[Any]:
    """stdout, or a file beside `path` that takes its name when all is written; on an error nothing is left."""
    if path is None:
        yield sys.stdout
        return
    path = writable(path)
    exists = path.exists()
    try:
        if exists and not path.is_file():  # a device or a pipe cannot be replaced
            with open(path, "w", encoding="utf-8") as f:
                yield f
            return
        mode = path.stat().st_mode & 0o777 if exists else 0o666 & ~_umask()
        descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    try:
        with open(descriptor, "w", encoding="utf-8") as f:
            yield f
        os.chmod(partial, mode)
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        if isinstance(error, OSError):
            raise InputError(f"{path} cannot be written: {error.strerror}") from None
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def _bar(label: str, quiet: bool, unit: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """report(done, total), which draws a progress bar on stderr if that is a terminal; a total of None is unknown.

    unit: of what a rate is shown; then it also shows what is left where the total is known.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = [TextColumn("{task.fields[rate]}")] if unit else []
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), *rate, TimeRemainingColumn())
    began = time.perf_counter()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None, rate="")

        def report(done: int, total: int | None) -> None:
            per_second = done / max(time.perf_counter() - began, 1e-9)
            progress.update(task, completed=done, total=total, rate=f"{per_second:.1f} {unit}/s")

        yield report


def _line_off_a_terminal(label: str, quiet: bool) -> Callable[[str], None]:
    """Tells in a line on stderr what is about to run, where no progress bar shows that something does."""
    if quiet or sys.stderr.isatty():
        return lambda what: None
    return lambda what: print(f"{label}: {what}", file=sys.stderr, flush=True)


class _Printer:
    """Shows a greedy text token by token; on a terminal, after the prompt that it continues."""

    def __init__(self, tokenizer, begun: str, out):
        from .tokenizer import TextStream

        self.stream, self.out, self.first_token_at = TextStream(tokenizer), out, None
        if out.isatty():
            print(begun, end="", file=out, flush=True)

    def __call__(self, sentence: int, token_id: int) -> None:
        if self.first_token_at is None:
            self.first_token_at = time.perf_counter()
        print(self.stream.push(token_id), end="", file=self.out, flush=True)

    def finish(self) -> None:
        print(self.stream.finish(), file=self.out, flush=True)


def _cached_models() -> list[tuple[str, Path]]:
    """(hub id, folder) of models in the Hugging Face cache that can be loaded; what is damaged is passed over."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    from .hub import is_complete
    from .model import read_settings

    try:
        repos = scan_cache_dir().repos
    except (CacheNotFound, ValueError):  # no cache, or a file in its place
        return []
    found = []
    for repo in sorted((r for r in repos if r.repo_type == "model"), key=lambda r: r.repo_id):
        for revision in repo.revisions:
            with contextlib.suppress(MinidecodeError):
                folder = revision.snapshot_path
                read_settings(folder, None)  # raises on another kind of model
                if is_complete(folder):
                    found.append((repo.repo_id, folder))
    return found


if __name__ == "__main__":
    main()
