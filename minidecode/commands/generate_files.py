"""What `minidecode generate` does with many prompts: lines in, records out, and a progress report."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ..errors import InputError, LineError, MinidecodeError, OptionError, counted
from ..files.lines import RecordFile
from ..lines.pipeline import ON_ERROR, RunReceipt, check_lines, generate_lines
from ..lines.records import make_line_renderer, read_record
from .interrupts import Terminated
from .prompts import Prompts
from .resume import records_depend_on
from .whole_file import replacement_warning


class Interrupted(BaseException):
    """Ctrl-C in a run over many lines; the message says what is done."""


def check_on_error(on_error: str, as_json: bool) -> None:
    """Raises OptionError on an unknown --on-error, and on record without --json."""
    if on_error not in ON_ERROR:
        raise OptionError(f"on_error must be one of {', '.join(ON_ERROR)}, not {on_error!r}")
    if on_error == "record" and not as_json:
        raise OptionError("on_error=record puts errors into JSON objects: say --json too")


def check_prompts(model: Any, prompts: Prompts, settings: dict[str, Any]) -> None:
    """Raises what would end the run, before anything is computed, if the lines can be read twice; counts them."""
    options = {name: value for name, value in settings.items() if name != "memory_budget"}
    if prompts.source == "prompt":
        model.check(list(prompts.lines), **options)
        for number, text in enumerate(prompts.lines, 1):
            read_record(text, False, f"prompt {number}")  # one that is blank
    elif prompts.again:
        with contextlib.closing(prompts.again()) as lines:
            prompts.total = check_lines(model, lines, jsonl=prompts.is_jsonl, source=prompts.source, **options)


def check_resume(prompts: Prompts, output: Path | None) -> None:
    """Raises InputError where --resume has nothing to go on with, whatever an earlier run has done."""
    if output is None:
        raise InputError("--resume continues a file of records: say --output FILE, as the run before did")
    if not prompts.can_be_read_again:
        name = prompts.source.removesuffix(", line")
        raise InputError(f"--resume reads all prompts again, and {name} can be read once: give them by --input FILE")


class StandardOutput:
    """Records to standard output; as RecordFile, as far as that can be."""

    part, is_replaced, can_be_resumed = None, False, False
    done, errors = range(0), {}

    def __enter__(self) -> StandardOutput:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def write(self, record: str, line: int, error: str = "") -> None:
        sys.stdout.write(record)
        sys.stdout.flush()
        self.done = range(1, line + 1)


def run_lines(
    model: Any, prompts: Prompts, output: Path | None, *, as_json: bool, report: Callable[[int, int | None], None],
    show: Callable[[RunReceipt], None], tell: Callable[[str], None], resume: bool = False, **settings: Any,
) -> RunReceipt:  # fmt: skip
    """Generates for all prompts and writes as it goes. report(lines done, of how many): called after each.

    resume: leaves out the lines that an earlier run has done; `tell` is called with how many these are.
    show: called with the receipt when the run ends, however it ends; if that fails, the output is whole all the same,
    and the message says what ended the run. Errors and interrupts say how many lines are done, and where they are.
    """
    out = _open_output(model, prompts, output, resume, as_json, settings)
    try:
        with out:
            if resume:
                tell(f"{out.part} {_progress_in_words(out.done, prompts.total)}")
            if output is not None and (warning := replacement_warning(output)):
                tell(warning)
            run = generate_lines(
                model, prompts.lines, jsonl=prompts.is_jsonl, source=prompts.source, done=out.done,
                render=make_line_renderer(as_json, model.tokenizer), keeps_order=not out.is_replaced, **settings,
            )  # fmt: skip
            run.receipt.failed = len(out.errors)
            run.receipt.failures = [LineError(error, line) for line, error in sorted(out.errors.items())]
            try:
                _write_lines(run, out, prompts, report, settings["on_error"])
            except BaseException:
                with contextlib.suppress(MinidecodeError):
                    show(run.receipt)
                raise
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted{_progress_at_the_end(out, prompts)}") from None
    except Terminated:
        raise Terminated(f"terminated{_progress_at_the_end(out, prompts)}") from None
    except MinidecodeError as error:
        error.args = (f"{error}{_progress_at_the_end(out, prompts)}",)
        raise
    show(run.receipt)
    return run.receipt


def _open_output(
    model: Any, prompts: Prompts, output: Path | None, resume: bool, as_json: bool, settings: dict[str, Any]
) -> StandardOutput | RecordFile:
    """Opens the output of records. A later run can resume a file if it can read the prompts again."""
    if output is None:
        return StandardOutput()
    depends_on = (lambda: records_depend_on(model, prompts, settings, as_json)) if prompts.can_be_read_again else None
    return RecordFile(output, depends_on, resume)


def _write_lines(
    run: Any, out: StandardOutput | RecordFile, prompts: Prompts, report: Callable[[int, int | None], None],
    on_error: str,
) -> None:  # fmt: skip
    """Each line's record as soon as it is there."""
    with run:
        for line in run:
            out.write(line.rendered, line.number, str(line.error or ""))
            report(run.receipt.reached + 1, prompts.total)
    if run.receipt.failed and not out.done:  # an output that was there before stays as it is
        raise InputError(failure_summary(run.receipt, on_error))
    if run.receipt.reached < (prompts.total or 0):
        raise InputError(
            f"{prompts.source.removesuffix(', line')} had {counted(prompts.total, 'line')} when it was checked and "
            f"{run.receipt.reached} when they were generated for: it was changed meanwhile; run again"
        )


def failure_summary(run: RunReceipt, on_error: str) -> str:
    """How many lines failed, what became of them, and the first."""
    fate = "left out" if on_error == "skip" else "with an error"
    return f"{run.failed} of {counted(run.reached, 'line')} {fate}; the first: {run.failures[0]}"


def _progress_in_words(done: Collection[int], total: int | None) -> str:
    if not done:
        return "has no line yet: starting with the first"
    if _are_first_lines(done):
        return f"continues after line {len(done)}"
    return f"has {_count_in_words(done, total)}: continues with the others"


def _progress_at_the_end(out: StandardOutput | RecordFile, prompts: Prompts) -> str:
    """What a run that breaks off has done, where that is, and how to go on."""
    if not out.done:
        return ""
    are_first, count = _are_first_lines(out.done) or not out.is_replaced, len(out.done)
    lines = "the first line" if count == 1 else f"the first {count} lines"
    said = f"; {lines if are_first else _count_in_words(out.done, prompts.total)} {'is' if count == 1 else 'are'} done"
    if out.part is None:
        return said
    which = "" if are_first else f" ({out.part.name}.journal says which)"
    return f"{said}, in {out.part}" + (": --resume continues it" if out.can_be_resumed else which)


def _are_first_lines(done: Collection[int]) -> bool:
    """Whether these are lines 1, 2, 3 and so on, in this order."""
    return all(line == n for n, line in enumerate(done, 1))


def _count_in_words(done: Collection[int], total: int | None) -> str:
    count = len(done)
    return f"{count} of {counted(total, 'line')}" if total else counted(count, "line")
