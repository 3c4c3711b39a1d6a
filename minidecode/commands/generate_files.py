"""What `minidecode generate` does with many prompts: lines in, records out, and a progress report."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError, LineError, MinidecodeError
from ..files.lines import LineReader, RecordFile, path_of_prompts
from ..runtime.pipeline import Line, RunReceipt, check_lines, generate_lines
from ..runtime.records import read_record
from .interrupts import Terminated
from .resume import records_depend_on
from .whole_file import will_be_replaced


class Interrupted(BaseException):
    """Ctrl-C in a run over many lines; the message says what is done."""


@dataclass
class Prompts:
    """Prompts as they come: from arguments, from a file, or from a pipe, which cannot be read twice."""

    lines: Iterable[str | bytes]
    source: str  # what an error calls a line, before its number
    is_jsonl: bool = False
    total: int | None = None  # None: not known yet
    again: Callable[[], LineReader] | None = None  # opens the file once more

    @property
    def is_single(self) -> bool:
        return self.total == 1

    @property
    def can_be_read_again(self) -> bool:
        return self.again is not None or self.source == "prompt"  # arguments

    def count(self) -> None:
        """Finds the total out, where that can be done without losing a line."""
        if self.total is None and self.again:
            with contextlib.closing(self.again()) as lines:
                self.total = sum(1 for _ in lines)


@contextlib.contextmanager
def prompts_of(
    arguments: list[str], path: Path | None, jsonl: bool, what: str = "prompt"
) -> Iterator[Prompts]:  # fmt: skip
    """From the arguments or from a file or standard input (-), never from both. Raises InputError if there is none.

    what: the word for one of them in errors.
    """
    path = path_of_prompts(arguments, path, jsonl, what)
    if path is None:
        yield Prompts(arguments, what, total=len(arguments))
        return
    with contextlib.closing(LineReader(path)) as reader:
        first_two = list(itertools.islice(reader, 2))
        if not first_two:
            raise InputError(f"{reader.name} is empty: write one text per line")
        yield Prompts(
            _Beginning(first_two, reader), f"{reader.name}, line", jsonl or path.suffix == ".jsonl",
            1 if len(first_two) == 1 else None, (lambda: LineReader(path)) if reader.can_be_opened_again else None,
        )  # fmt: skip


class _Beginning:
    """Lines that were looked at already, then the reader's others."""

    def __init__(self, first: list[bytes], reader: LineReader):
        self.first, self.reader, self.call_off = first, reader, reader.call_off

    def __iter__(self) -> Iterator[bytes]:
        return itertools.chain(self.first, self.reader)


def check_prompts(model: Any, prompts: Prompts, how: dict[str, Any]) -> None:
    """Raises what would end the run, before anything is computed, if the lines can be read twice; counts them."""
    options = {name: value for name, value in how.items() if name != "memory_budget"}
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

    part, reached, failed, can_be_resumed = None, 0, 0, False

    def __enter__(self) -> StandardOutput:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def write(self, record: str, line: int, failed: int = 0, first_failure: str = "") -> None:
        sys.stdout.write(record)
        sys.stdout.flush()
        self.reached = line


def run_lines(
    model: Any, prompts: Prompts, output: Path | None, *, as_json: bool, report: Callable[[int, int | None], None],
    show: Callable[[RunReceipt], None], told: Callable[[str], None], resume: bool = False, **how: Any,
) -> RunReceipt:  # fmt: skip
    """Generates for all prompts and writes as it goes. report(lines done, of how many): called after each.

    resume: goes on behind the lines that an earlier run has done; `told` is called with how many these are.
    show: called with the receipt when the run ends, however it ends; if that fails, the output is whole all the same,
    and the message says what ended the run. Errors and interrupts say how many lines are done, and where they are.
    """
    with _output(model, prompts, output, resume, as_json, how) as out:
        if resume:
            done = f"continues after line {out.reached}" if out.reached else "has no line yet: starting with the first"
            told(f"{out.part} {done}")
        if output is not None and (warning := will_be_replaced(output)):
            told(warning)
        run = generate_lines(
            model, prompts.lines, jsonl=prompts.is_jsonl, source=prompts.source, render=record_of(as_json),
            done=out.reached, **how,
        )  # fmt: skip
        if out.failed:
            run.receipt.failed, run.receipt.failures = out.failed, [LineError(out.first_failure, 0)]
        try:
            _write_lines(run, out, prompts, report, how["on_error"])
        except BaseException:
            with contextlib.suppress(MinidecodeError):
                show(run.receipt)
            raise
    show(run.receipt)
    return run.receipt


def _output(
    model: Any, prompts: Prompts, output: Path | None, resume: bool, as_json: bool, how: dict[str, Any]
) -> StandardOutput | RecordFile:
    """Where records go. A later run can go on with a file, if it can read the prompts again."""
    if output is None:
        return StandardOutput()
    depends_on = (lambda: records_depend_on(model, prompts, how, as_json)) if prompts.can_be_read_again else None
    return RecordFile(output, depends_on, resume)


def _write_lines(
    run: Any, out: StandardOutput | RecordFile, prompts: Prompts, report: Callable[[int, int | None], None],
    on_error: str,
) -> None:  # fmt: skip
    """Each line's record as soon as it is there."""
    try:
        with run:
            for line in run:
                failures = run.receipt.failures
                out.write(line.rendered, line.number, run.receipt.failed, str(failures[0]) if failures else "")
                report(line.number, prompts.total)
        if run.receipt.failed and not out.reached:  # an output that was there before stays as it is
            raise InputError(told_of_failures(run.receipt, on_error))
        if run.receipt.reached < (prompts.total or 0):
            raise InputError(
                f"{prompts.source.removesuffix(', line')} had {prompts.total} lines when it was checked and "
                f"{run.receipt.reached} when they were generated for: it was changed meanwhile; run again"
            )
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted{what_is_done(out)}") from None
    except Terminated:
        raise Terminated(f"terminated{what_is_done(out)}") from None
    except MinidecodeError as error:
        error.args = (f"{error}{what_is_done(out)}",)
        raise


def told_of_failures(run: RunReceipt, on_error: str) -> str:
    """How many lines failed, what became of them, and the first."""
    fate = "left out" if on_error == "skip" else "with an error"
    return f"{run.failed} of {run.reached} lines {fate}; the first: {run.failures[0]}"


def what_is_done(out: StandardOutput | RecordFile) -> str:
    if not out.reached:
        return ""
    lines = "the first line is" if out.reached == 1 else f"the first {out.reached} lines are"
    remedy = ": --resume continues it" if out.can_be_resumed else ""
    return f"; {lines} done" + (f", in {out.part}{remedy}" if out.part else "")


def record_of(as_json: bool) -> Callable[[Line], str]:
    """What a line becomes in the output: one JSON object, or a line for each of its texts, line breaks written as \\n.

    The object has the fields of the input, then "line" (its number), then "hypotheses" or "error". These three replace
    fields of their names: a record of another run can be an input, and comes without what was said of it then.
    """

    def as_object(line: Line) -> str:
        ours = ("line", "hypotheses", "error")
        record = {name: value for name, value in (line.record or {}).items() if name not in ours}
        record["line"] = line.number
        if line.error:
            record["error"] = str(line.error)
        else:
            parts = zip(line.texts, line.token_ids, line.scores, line.finish_reasons, strict=True)
            record["hypotheses"] = [
                {"text": text, "token_ids": ids.tolist(), "score": finite(score), "finish_reason": reason}
                for text, ids, score, reason in parts
            ]
            for hypothesis, log_probs in zip(record["hypotheses"], line.log_probs or (), strict=False):
                hypothesis["token_logprobs"] = [finite(p) for p in log_probs.token_R]
                if log_probs.best:
                    hypothesis["top_logprobs"] = [[[i, finite(p)] for i, p in step.items()] for step in log_probs.top]
        return json.dumps(record, ensure_ascii=False) + "\n"

    def as_texts(line: Line) -> str:
        return "".join(text.replace("\n", "\\n") + "\n" for text in line.texts)

    return as_object if as_json else as_texts


def finite(score: float) -> float | None:
    """The score as JSON can hold it: null for a place that no text fills."""
    return float(score) if math.isfinite(score) else None
