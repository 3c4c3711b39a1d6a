"""Tasks whose functions run in the student's process, on NumPy arrays."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import sandbox
from .as_code import inputs_in_words
from .exercise import Submission, Task, Trial, seconds_for_trials
from .failures import MISTAKES, line_of_error_in_words, load_error, why_failed
from .kernel_source import Refused, forbidden_import
from .results import as_tuple
from .verdict import Miss, Verdict
from .wire import Callback

MOST_CALLS = 2000  # of callbacks, in one trial
MOST_BYTES_OF_CALLS = 256 * 2**20


class NumPyTask(Task):
    """A function of NumPy arrays (kinds N and M): it runs in a process that has no minidecode."""

    function = ""
    gives = True  # whether something is returned
    imports: tuple[str, ...] = ()  # modules beyond NumPy and a few of Python's that the answer may import
    seconds: float | None = None  # for one answer, where less than usual is enough
    measure = False  # whether Trial.peak is wanted: bytes that the call and the file had at most, by tracemalloc

    def is_huge(self, inputs: dict[str, Any]) -> bool:
        """Whether Trial.grown is wanted: inputs so large that the system sees from outside what a call holds."""
        return False

    def run(self, submission: Submission, v: SimpleNamespace, trials: list[Trial], verdict: Verdict) -> None:
        root, file = submission.root, submission.path.name
        problem = forbidden_import(submission.source, file, lambda top: top in self.imports or is_neighbour(root, top))
        if problem:
            raise Refused("forbidden", problem)
        function = submission.names.get(self.function, self.function)
        try:
            with sandbox.numpy_sandbox(root, seconds=self.seconds) as box:
                box.end_after(seconds_for_trials(trials))
                began = None
                if any(self.is_huge(trial.inputs) for trial in trials):
                    box.ask("limits")  # it is ready
                    began = box.read_resident_and_peak_bytes()
                try:
                    reply = box.ask("load", source=submission.source, file=file, package=submission.package,
                                   measure=self.measure)  # fmt: skip
                    if "error" in reply:
                        raise Refused(*load_error(reply["error"]))
                    for trial in trials:
                        self._judge_trial(box, function, trial, began)
                        if trial.miss and trial.miss.mistake in ("time", "memory", "ended", "forged"):
                            break
                finally:
                    verdict.printed = box.printed
        except sandbox.Failed as failed:
            raise Refused(failed.kind, f"While {file} was read: {failed.what}.") from None

    def try_again(
        self, submission: Submission, v: SimpleNamespace, trials: list[Trial], inputs: Callable[[dict], dict]
    ) -> None:
        """Runs it once more, with other inputs or as another program, to see on what an outcome depends.

        What it prints now is dropped: it is the same again. Where it cannot run there is nothing to compare.
        """
        again = [Trial(inputs(t.inputs)) for t in trials]
        with contextlib.suppress(Refused):
            NumPyTask.run(self, submission, v, again, Verdict(self.number, 0, False, ""))
        for trial, other in zip(trials, again, strict=True):
            trial.again = other

    def _judge_trial(self, box: sandbox.Sandbox, function: str, trial: Trial, began: tuple[int, int] | None) -> None:
        inputs, given = trial.inputs, list(trial.inputs.values())
        changes = [k for k, name in enumerate(inputs) if name in self.changes]
        callbacks = {c.name: _note_calls_of(c, trial) for c in inputs.values() if isinstance(c, Callback)}
        try:
            if is_huge := self.is_huge(inputs):
                box.ask("hold", arguments=given)
                box.read_resident_and_peak_bytes(forget_peak=True)
            reply = box.ask("call", callbacks=callbacks, function=function, arguments=None if is_huge else given,
                            changes=changes, measure=self.measure)  # fmt: skip
            if is_huge and began and (after := box.read_resident_and_peak_bytes()):
                held = sum(
                    2 * a.nbytes for a in given if isinstance(a, np.ndarray)
                )  # and a copy, to see what is changed
                trial.grown = after[1] - began[0] - held
        except sandbox.Failed as failed:
            trial.miss = Miss(f"{self.call(inputs)}: {failed.what}{why_failed(failed)}.", failed.kind)
            return
        try:
            self._read(reply, function, trial, changes)
        except (KeyError, TypeError, AttributeError, ValueError):  # nothing that our end of the pipe would write
            trial.got, trial.miss = None, Miss(f"{self.call(inputs)}: the process gave what is no answer.", "forged")

    def _read(self, reply: dict[str, Any], function: str, trial: Trial, changes: list[int]) -> None:
        """Notes an answer in its trial."""
        inputs = trial.inputs
        if reply.get("missing"):
            raise Refused("cannot-run", f"there is no function {function} in the file")
        if "error" in reply:
            trial.raised = str(reply["error"].get("type"))
            arrays = reply["error"].get("arrays", {}).items()
            trial.arrays = {str(n): (str(kind), tuple(map(int, shape))) for n, (kind, *shape) in arrays}
            trial.miss = self._describe_raised_error(inputs, reply["error"])
            return
        unwanted = [name for k, name in enumerate(inputs) if k in reply["changed"] and name not in self.changes]
        result = reply["result"]
        if isinstance(result, list) and len(result) == len(self.returns) - len(changes) > 1:
            result = tuple(result)  # a list of the results is as good
        result = tuple(map(_as_array, as_tuple(result))) if self.gives else ()
        trial.peak = reply.get("peak")
        trial.callers = [int(caller) for caller in reply.get("callers", ())]
        trial.late, trial.left_running = [str(name) for name in reply.get("late", ())], int(reply.get("left", 0))
        trial.got = (*result, *(reply["after"][str(k)] for k in changes))
        if unwanted:
            message = f"{self.call(inputs)} changed its input {unwanted[0]}."
            trial.miss = Miss(message, "mutates-input")

    def call(self, inputs: dict[str, Any]) -> str:
        return f"{self.function}({inputs_in_words(inputs)})"

    def _describe_raised_error(self, inputs: dict[str, Any], error: dict[str, Any]) -> Miss:
        kind, where, mistake = error.get("type"), line_of_error_in_words(error), MISTAKES.get(str(error.get("type")))
        if mistake == "not-started":
            raise Refused(mistake, f"{where}{error.get('message')}".strip())
        message = (
            f"{where}{self.call(inputs)} raised {kind}: {error.get('message')}".rstrip(": ").removesuffix(".") + "."
        )
        return Miss(message + _shapes_there(inputs, error), mistake, is_explained=True)


def _as_array(result: Any) -> Any:
    """A list of numbers as an array; all else as it is."""
    if not isinstance(result, list):
        return result
    try:
        array = np.asarray(result)
    except ValueError:  # rows of different lengths
        return result
    return array if array.dtype.kind in "biuf" else result


def is_neighbour(root: Path | None, module: str) -> bool:
    """Whether the student's own folder has this module."""
    return root is not None and ((root / f"{module}.py").is_file() or (root / module).is_dir())


def _shapes_there(inputs: dict[str, Any], error: dict[str, Any]) -> str:
    """The student's own arrays where the code raised, if what it raised is about shapes."""
    about = ("shape", "axis", "axes", "dimension", "broadcast", "mismatch")
    if not any(word in str(error.get("message")) for word in about):
        return ""
    shapes = {str(name): tuple(shape) for name, (_, *shape) in error.get("arrays", {}).items() if name not in inputs}
    return f" There {', '.join(f'{name} is {shape}' for name, shape in shapes.items())}." if shapes else ""


def _note_calls_of(callback: Callback, trial: Trial) -> Callable:
    """The callback's function, each call noted in the trial: counted where the submission cannot patch it."""
    signature = inspect.signature(callback.function)

    def call_and_note(*arguments: Any) -> Any:
        held = sum(getattr(a, "nbytes", 0) for _, done in trial.calls for a in done)
        if len(trial.calls) >= MOST_CALLS or held > MOST_BYTES_OF_CALLS:
            raise ValueError(f"{callback.name} has been called too often")
        trial.calls.append((callback.name, arguments))
        try:
            signature.bind(*arguments)
        except TypeError:
            problem = f"{callback.name}({', '.join(signature.parameters)}) was called with {len(arguments)} argument(s)"
            raise TypeError(problem) from None
        return callback.function(*arguments)

    return call_and_note
