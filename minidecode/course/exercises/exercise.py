"""What the exercises share: how code is run, compared and answered. A task of `tasks/` fills in the rest.

A task is a class `Task` with one of three bases: `NumPyTask` (functions that run in the student's process),
`KernelTask` (a kernel that runs in the emulator), `PredictionTask` (numbers that the student writes down).
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...errors import InputError, OptionError
from . import sandbox, skeleton
from .kernel_source import MOST_CHARACTERS, Refused, forbidden_import
from .verdict import Miss, Verdict
from .wire import Callback

POISON = -7777  # what outputs of whole numbers hold before they are written; those of floats hold NaN
MOST_CALLS = 2000  # of callbacks, in one trial
MOST_BYTES_OF_CALLS = 256 * 2**20
MANY = 32  # numbers of an output that do not agree with a mistake's by chance
WITH_A_FRACTION = 16  # times as hardly as a whole number one that is none agrees by chance
LONGEST_CODE = 2500  # characters of an input that are shown
MISTAKES = {  # what code raised -> the mistake
    "NotImplementedError": "not-started", "MemoryError": "memory", "SystemExit": "exit", "PermissionError": "forbidden",
}  # fmt: skip
COMMON = {
    "not-started": "",
    "types": "",
    "row-0-for-all": "what belongs to row 0 is used for every row, which is right as long as all rows are alike",
    "reads-the-tail": "what a row's length leaves out is taken for data",
    "only-multiples-of-32": "sizes that 32 divides come out right, all others do not: the last, partial group is lost",
    "mutates-input": "whoever called you still needs what he handed in",
}  # fmt: skip


@dataclass
class Submission:
    """A student's file. names: what the exercise calls a function -> what the student calls it."""

    path: Path
    source: str
    root: Path | None = None
    package: str = ""  # of a module in a layout of the student's own
    names: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path, **fields: Any) -> Submission:
        if path.stat().st_size > 2 * MOST_CHARACTERS:
            raise InputError(f"{path} has {path.stat().st_size:,} bytes: an exercise needs no more than 100,000")
        try:
            source = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
            raise InputError(f"{path.name}, line {line} is not UTF-8: byte 0x{byte:02x}; save it as UTF-8") from None
        return cls(path, source, path.resolve().parent, **fields)


@dataclass
class Trial:
    """One input that was tried, and what came of it.

    got: outputs, or None where there are none. left: what a kernel left in its outputs although the emulator found an
    error. raised: the type of what the code raised; arrays: variable -> dtype's kind and shape of each array there.
    ran: of a kernel, what the judge saw (blocks, threads, counts, lines, findings, costs, shared arrays, names). calls:
    what the code asked of callbacks, in order. callers: by which thread each, 0 being the one that was called. late:
    callbacks that threads called when the function had returned; left_running: threads that were still there a moment
    after. again: what came of the same input otherwise, where a task tries that: see `NumPyTask.try_again`.
    """

    inputs: dict[str, Any]
    is_hidden: bool = False
    got: tuple | None = None
    left: tuple | None = None
    raised: str | None = None
    arrays: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    ran: SimpleNamespace | None = None
    calls: list[tuple] = field(default_factory=list)
    callers: list[int] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    again: Trial | None = None
    left_running: int = 0
    peak: int | None = None
    miss: Miss | None = None


class Task:
    """The base of all three. number, name, and the texts of eNN_name.md are set by `find`."""

    number = 0
    name = ""
    returns: tuple[str, ...] = ("result",)  # what the outputs are called
    changes: tuple[str, ...] = ()  # inputs that are changed in place: they are outputs, behind what is returned
    known: dict[str, str] = {}  # stable name of a mistake -> what it does and why it matters

    # What a task says

    def call(self, inputs: dict[str, Any]) -> str:
        """How the code was called, to begin a message with."""
        raise NotImplementedError

    def variation(self, rng: np.random.Generator) -> dict[str, Any]:
        """What is drawn anew for each student: constants of the skeleton in capitals, {{name}} in the text."""
        return {}

    def cases(self, v: SimpleNamespace, rng: np.random.Generator) -> list[dict[str, Any]]:
        """Inputs by name in the order of the parameters, from small to large; sizes drawn, so that none is known."""
        raise NotImplementedError

    def expected(self, v: SimpleNamespace, inputs: dict[str, Any], mistake: str | None = None, ran: Any = None) -> Any:
        """The right outputs, in float64 or whole numbers, by the plainest loops; with one of `known`, its outputs."""
        raise NotImplementedError

    def bound(self, v: SimpleNamespace, inputs: dict[str, Any]) -> Any:
        """How far an output may lie from the expected one: computed, not guessed. By default not at all."""
        return 0.0

    def tell(self, v: SimpleNamespace, inputs: dict[str, Any], got: tuple, want: tuple) -> str:
        """What is wrong with this output, in one sentence that names row, place and numbers."""
        return f"{self.call(inputs)}: {first_difference(self.returns, got, want, self.bound(v, inputs))}"

    def altered(self, v: SimpleNamespace, inputs: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Inputs on which the right code does what common mistakes do on these: see `rows_alike` and `whole_width`."""
        return {}

    def size(self, v: SimpleNamespace, inputs: dict[str, Any]) -> int | None:
        """The size that may or may not be a multiple of 32."""
        return None

    def miss(self, v: SimpleNamespace, trial: Trial) -> Miss | None:
        """What is wrong although the output is right: loads, sectors, calls, bytes beyond the limit."""
        return None

    # How it is judged

    def draw(self, seed: int) -> SimpleNamespace:
        return self._varied(np.random.default_rng([self.number, seed]))

    def _varied(self, rng: np.random.Generator) -> SimpleNamespace:
        drawn = self.variation(rng)
        return SimpleNamespace(**{k: v.item() if isinstance(v, np.generic) else v for k, v in drawn.items()})

    def constants(self, v: SimpleNamespace) -> dict[str, Any]:
        return {name.upper(): value for name, value in vars(v).items()}

    def _changed(self, submission: Submission, v: SimpleNamespace) -> list[str]:
        """Which drawn constants the student's file says otherwise; in another layout they may mean anything."""
        return [] if submission.names else skeleton.changed_constants(submission.source, self.constants(v))

    def rng(self, seed: int, hidden: int | None = None) -> np.random.Generator:
        return np.random.default_rng([self.number, seed, 1] if hidden is None else [self.number, seed, 2, hidden])

    def check(
        self, submission: Submission, seed: int, *, hidden: int | None = None,
        seal: Callable[[dict], dict | None] | None = None,
    ) -> Verdict:  # fmt: skip
        """The verdict on a submission. hidden: the teacher's seed, for inputs that no student has seen."""
        v = self.draw(seed)
        trials = [Trial(case) for case in self.cases(v, self.rng(seed))]
        if hidden is not None:
            trials += [Trial(case, is_hidden=True) for case in self.cases(v, self.rng(seed, hidden))]
        verdict = Verdict(self.number, seed, True, "", notes=self._changed(submission, v))
        try:
            self.run(submission, v, trials, verdict)
        except Refused as refused:
            verdict.ok, verdict.mistake, verdict.message = False, refused.mistake, refused.message
            if refused.mistake == "not-started":
                verdict.message = f"Not started yet ({refused.message})."
            return verdict
        tried = [t for t in trials if t.got is not None or t.raised or t.ran or t.miss]
        for trial in tried:
            trial.miss = trial.miss or self.wrong(v, trial) or self.miss(v, trial)
        first = next((t for t in tried if t.miss), None)
        if first is None:
            verdict.message = f"Solved: right on all {len(tried)} inputs. {self.praise(v, tried)}".strip()
            return verdict
        self._answer(verdict, v, tried, first)
        if edited := edited_constants(submission.source, self.constants(v)):
            verdict.mistake = None  # that of another variation
            verdict.message = f"{first.miss.message}\n{edited}"
        return verdict

    def run(self, submission: Submission, v: SimpleNamespace, trials: list[Trial], verdict: Verdict) -> None:
        """Fills in what came of the trials. Raises Refused where nothing can be run."""
        raise NotImplementedError

    def praise(self, v: SimpleNamespace, tried: list[Trial]) -> str:
        """What the student may be glad of, in numbers."""
        return ""

    def overall(self, v: SimpleNamespace, tried: list[Trial]) -> str:
        """What all trials together say where one of them failed, such as how many came out right by luck."""
        return ""

    def wrong(self, v: SimpleNamespace, trial: Trial) -> Miss | None:
        """What is wrong with the output. A task whose right answers are many, such as plans, judges them here."""
        if trial.got is None:
            return None
        want = several(self.expected(v, trial.inputs, None, trial.ran))
        if same(trial.got, want, self.bound(v, trial.inputs)):
            return None
        if problem := different_kind(self.returns, trial.got, want, len(self.changes)):
            return problem
        return Miss(self.tell(v, trial.inputs, trial.got, want), is_of_value=True)

    def _answer(self, verdict: Verdict, v: SimpleNamespace, tried: list[Trial], first: Trial) -> None:
        miss = first.miss
        mistake = miss.mistake or self.recognise(v, tried)
        if mistake is None and first.is_hidden:
            mistake = "only-public-inputs"
        verdict.ok, verdict.mistake, verdict.numbers, verdict.picture = False, mistake, miss.numbers, miss.picture
        verdict.message = f"{miss.message} {self.overall(v, tried)}".rstrip()
        what = self.known.get(mistake or "") or COMMON.get(mistake or "")
        if mistake == "only-public-inputs":
            verdict.message += " All inputs that `check` tries come out right; this one is the teacher's."
        elif mistake and what and miss.is_of_value:
            verdict.message += f'\nYour output is what "{mistake.replace("-", " ")}" gives: {what}.'
        elif mistake and what:
            verdict.message += f'\nThis is "{mistake.replace("-", " ")}": {what}.'
        elif mistake is None and miss.is_of_value and not miss.is_explained:  # all else has said why it is wrong
            here = self.on_this_input(v, tried, first)
            what = self.known.get(here or "") or COMMON.get(here or "")
            verdict.message += (
                f'\nOn this input your output is what "{here.replace("-", " ")}" gives: {what}. Something'
                " else is wrong elsewhere."
                if here
                else "\nIt is none of the mistakes that this exercise knows by name."
            )
        if miss.shows_input and not first.is_hidden:
            verdict.input = as_code(first.inputs) if miss.values_matter else of_this_size(first.inputs)

    def recognise(self, v: SimpleNamespace, tried: list[Trial]) -> str | None:
        """The one known mistake that gives these outputs on every input; None if there is none, or more than one."""
        fits = [m for m in self.known if self._fits(v, tried, lambda t, m=m: self.expected(v, t.inputs, m, t.ran))]
        if not fits:
            common = {name for t in tried for name in self.altered(v, t.inputs)}
            fits = [m for m in sorted(common) if self._fits(
                v, tried, lambda t, m=m: self.expected(v, self.altered(v, t.inputs)[m], None, t.ran))]  # fmt: skip
        if len(fits) == 1:
            return fits[0]
        return "only-multiples-of-32" if not fits and self._only_multiples(v, tried) else None

    def on_this_input(self, v: SimpleNamespace, tried: list[Trial], first: Trial) -> str | None:
        """Where no one mistake gives all outputs, as of two at once: the one that gives the first that is wrong.

        It needs that no output is right that this mistake would make wrong, that something else is wrong elsewhere, and
        MANY numbers, or another input on which it is so.
        """
        right = [t for t in tried if not t.miss and t.got is not None]
        others = [t for t in tried if t.miss and t is not first]
        fits = []
        for mistake in [*self.known, *self.altered(v, first.inputs)]:

            def outputs(t: Trial, m: str = mistake) -> Any:
                if m in self.known:
                    return self.expected(v, t.inputs, m, t.ran)
                return self.expected(v, self.altered(v, t.inputs)[m], None, t.ran)

            if self._gives(v, first, outputs) and all(self._gives(v, t, outputs) for t in right):
                fits.append((mistake, [self._gives(v, t, outputs) for t in others]))
        if len(fits) != 1 or all(fits[0][1]) or not (any(fits[0][1]) or _told_by(first.got) >= MANY):
            return None
        return fits[0][0]

    def _gives(self, v: SimpleNamespace, trial: Trial, outputs: Callable[[Trial], Any]) -> bool:
        """Whether these are the outputs of a trial that has some."""
        try:
            theirs = several(outputs(trial))
        except (NotImplementedError, ValueError, IndexError, KeyError):  # this mistake has no outputs of its own
            return False
        return trial.got is not None and same(trial.got, theirs, self.bound(v, trial.inputs))

    def _fits(self, v: SimpleNamespace, tried: list[Trial], outputs: Callable[[Trial], Any]) -> bool:
        """Whether these are the outputs of all trials that have some, the first that fails among them.

        Where some have none, because the code raised or the emulator stopped it, there must be two wrong ones, or one
        with MANY numbers: a single small one agrees with much.
        """
        judged = [t for t in tried if t.got is not None]
        first = next((t for t in tried if t.miss), None)
        wrong = [t for t in judged if t.miss and t.miss.is_of_value]
        if first is None or not first.miss.is_of_value:
            return False
        if len(judged) < len(tried) and len(wrong) < 2 and sum(np.size(output) for output in wrong[0].got) < MANY:
            return False
        return all(self._gives(v, trial, outputs) for trial in judged)

    def _only_multiples(self, v: SimpleNamespace, tried: list[Trial]) -> bool:
        if any(t.miss and not t.miss.is_of_value for t in tried):
            return False  # something else was seen: nothing is lost where an index lies outside
        sized = [(self.size(v, t.inputs), t.miss is None) for t in tried]
        sized = [(size, fine) for size, fine in sized if size]
        return bool(sized) and {fine for _, fine in sized} == {True, False} and all(
            fine == (size % 32 == 0) for size, fine in sized)  # fmt: skip


class NumPyTask(Task):
    """A function of NumPy arrays (kinds N and M): it runs in a process that has no minidecode."""

    function = ""
    gives = True  # whether something is returned
    imports: tuple[str, ...] = ()  # modules beyond NumPy and a few of Python's that the answer may import
    seconds: float | None = None  # for one answer, where less than usual is enough
    measure = False  # whether Trial.peak is wanted: bytes that the call had at the most, by tracemalloc

    def run(self, submission: Submission, v: SimpleNamespace, trials: list[Trial], verdict: Verdict) -> None:
        root, file = submission.root, submission.path.name
        problem = forbidden_import(submission.source, file, lambda top: top in self.imports or is_neighbour(root, top))
        if problem:
            raise Refused("forbidden", problem)
        function = submission.names.get(self.function, self.function)
        try:
            with sandbox.for_numpy(root, seconds=self.seconds) as box:
                box.end_after(time_for(trials))
                try:
                    told = box.ask("load", source=submission.source, file=file, package=submission.package)
                    if "error" in told:
                        raise Refused(*_load_error(told["error"]))
                    for trial in trials:
                        self._try(box, function, trial)
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

    def _try(self, box: sandbox.Sandbox, function: str, trial: Trial) -> None:
        inputs = trial.inputs
        changes = [k for k, name in enumerate(inputs) if name in self.changes]
        callbacks = {c.name: _noted(c, trial) for c in inputs.values() if isinstance(c, Callback)}
        try:
            reply = box.ask("call", callbacks=callbacks, function=function, arguments=list(inputs.values()),
                            changes=changes, measure=self.measure)  # fmt: skip
        except sandbox.Failed as failed:
            trial.miss = Miss(f"{self.call(inputs)}: {failed.what}{_why_failed(failed)}.", failed.kind)
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
            told = reply["error"].get("arrays", {}).items()
            trial.arrays = {str(n): (str(kind), tuple(map(int, shape))) for n, (kind, *shape) in told}
            trial.miss = self._raised(inputs, reply["error"])
            return
        unwanted = [name for k, name in enumerate(inputs) if k in reply["changed"] and name not in self.changes]
        result = tuple(map(_as_array, several(reply["result"]))) if self.gives else ()
        trial.peak = reply.get("peak")
        trial.callers = [int(caller) for caller in reply.get("callers", ())]
        trial.late, trial.left_running = [str(name) for name in reply.get("late", ())], int(reply.get("left", 0))
        trial.got = (*result, *(reply["after"][str(k)] for k in changes))
        if unwanted:
            message = f"{self.call(inputs)} changed its input {unwanted[0]}."
            trial.miss = Miss(message, "mutates-input")

    def call(self, inputs: dict[str, Any]) -> str:
        return f"{self.function}({in_words(inputs)})"

    def _raised(self, inputs: dict[str, Any], error: dict[str, Any]) -> Miss:
        kind, where, mistake = error.get("type"), _place(error), MISTAKES.get(str(error.get("type")))
        if mistake == "not-started":
            raise Refused(mistake, f"{where}{error.get('message')}".strip())
        told = f"{where}{self.call(inputs)} raised {kind}: {error.get('message')}".rstrip(": ").removesuffix(".") + "."
        return Miss(told + _shapes_there(inputs, error), mistake, is_explained=True)


class KernelTask(Task):
    """A kernel (kinds K, C and M): taken out of the file as data, typed by Numba, run by the emulator."""

    kernel = ""
    shape = "launch_shape"  # the plain function of the file that gives (blocks, threads); "" if `launch` does
    out: tuple[str, ...] = ("out",)  # arrays among the inputs that the kernel writes: the outputs
    found: dict[str, str] = {}  # kind of a finding of the emulator -> stable name of a mistake

    @property
    def returns(self) -> tuple[str, ...]:
        return self.out

    def shape_arguments(self, v: SimpleNamespace, inputs: dict[str, Any]) -> list:
        """What `launch_shape` is called with: numbers."""
        return []

    def launch(self, v: SimpleNamespace, inputs: dict[str, Any]) -> tuple | None:
        """(blocks, threads), where they are given, not asked of the student."""
        return None

    def options(self, v: SimpleNamespace, inputs: dict[str, Any]) -> dict[str, Any]:
        """Options of `md.emulate`, such as {"negative_indices": True}."""
        return {}

    def of_finding(self, v: SimpleNamespace, trial: Trial, finding: dict[str, Any]) -> str | None:
        """The known mistake behind an error that the emulator found.

        What nothing has written is a matter of who waits only in shared memory, before the block's first barrier; and
        where the reading thread has passed by a barrier at which others wait, of where that stands.
        """
        if finding.get("passed_by"):
            return "barrier-inside-if" if "barrier-inside-if" in self.known else None
        if finding["kind"] == "uninitialised" and (finding["space"] != "shared" or finding["epoch"]):
            return None
        return self.found.get(finding["kind"])

    def about_finding(self, v: SimpleNamespace, trial: Trial, finding: dict[str, Any]) -> str:
        """What else is to be seen in it, as a sentence."""
        return ""

    def run(self, submission: Submission, v: SimpleNamespace, trials: list[Trial], verdict: Verdict) -> None:
        kernel = submission.names.get(self.kernel, self.kernel)
        try:
            with sandbox.for_kernels() as box:
                box.end_after(time_for(trials))
                told = box.ask("load", source=submission.source, file=submission.path.name, kernel=kernel,
                               shape=submission.names.get(self.shape, self.shape))  # fmt: skip
                _refused(told)
                for trial in trials:
                    self._try(box, v, trial, verdict)
                    if trial.ran:
                        trial.ran.source = submission.source
                    found = {f["kind"] for f in trial.ran.findings} if trial.ran else set()
                    if (trial.miss and trial.miss.mistake in ("time", "memory", "ended")) or "endless" in found:
                        break  # it would only take as long again
        except sandbox.Failed as failed:
            raise Refused(failed.kind, f"While the kernel was read: {failed.what}.") from None

    def _try(self, box: sandbox.Sandbox, v: SimpleNamespace, trial: Trial, verdict: Verdict) -> None:
        inputs = trial.inputs
        is_first_to_fail = verdict.picture is None
        try:
            reply = box.ask("run", arguments=list(inputs.values()), shape_arguments=self.shape_arguments(v, inputs),
                            launch=self.launch(v, inputs), options=self.options(v, inputs),
                            picture=is_first_to_fail)  # fmt: skip
        except sandbox.Failed as failed:
            trial.miss = Miss(f"{self.call(inputs)}: {failed.what}{_why_failed(failed)}.", failed.kind)
            return
        _refused(reply)
        blocks, threads = map(tuple, reply["launch"])
        trial.ran = SimpleNamespace(blocks=blocks, threads=threads, **{
            k: reply[k] for k in ("counts", "lines", "accesses", "findings", "costs", "types", "picture", "shared",
                                  "names", "waits", "written", "exchanged")})  # fmt: skip
        touched = reply["arrays_touched"]
        trial.ran.touched = dict(zip(inputs, touched["arguments"], strict=False))
        trial.ran.loaded = dict(zip(inputs, reply["loaded"], strict=False))
        trial.ran.touched_shared = touched["shared"]
        warnings = [f"line {n['line']}: {n['message']}" for n in reply["types"]]
        if warnings:
            slow = "float64 is no mistake here, but most GPUs compute it many times slower."
            verdict.notes += [w for w in (*warnings[:3], slow) if w not in verdict.notes]
        arrays = iter(reply["arrays"])
        after = {name: next(arrays) for name, a in inputs.items() if isinstance(a, np.ndarray) and a.ndim}
        trial.left = tuple(after[name] for name in self.out)
        errors = [f for f in reply["findings"] if f["severity"] == "error"]
        if errors:
            mistake = self.of_finding(v, trial, errors[0])
            told = f"{self.call(inputs)}: {errors[0]['message']} {self.about_finding(v, trial, errors[0])}".rstrip()
            trial.miss = Miss(told, mistake, picture=reply["picture"], is_explained=True,
                              values_matter=errors[0]["kind"] in ("outside", "python", "endless"))  # fmt: skip
            return
        trial.got = trial.left
        changed = [n for n, a in after.items() if n not in self.out and a.tobytes() != inputs[n].tobytes()]
        if changed:
            trial.miss = Miss(f"{self.call(inputs)} wrote into its input {changed[0]}.", "mutates-input")

    def _answer(self, verdict: Verdict, v: SimpleNamespace, tried: list[Trial], first: Trial) -> None:
        super()._answer(verdict, v, tried, first)
        if first.ran and first.miss.numbers and "atomic" not in verdict.message:  # it is about what was counted
            verdict.message += told_of_atomics(first.ran)

    def wrong(self, v: SimpleNamespace, trial: Trial) -> Miss | None:
        miss = super().wrong(v, trial)
        if miss and trial.ran.counts["atomics"] and "was never written" in miss.message:
            miss.message += " An atomic changes what is there, and nothing had been put there before."
            miss.is_explained = True
        elif miss and self.shape and "was never written" in miss.message:
            blocks, threads = (" x ".join(map(str, size)) for size in (trial.ran.blocks, trial.ran.threads))
            miss.message += f" {self.shape} asked for {blocks} block(s) of {threads} threads."
        return miss

    def call(self, inputs: dict[str, Any]) -> str:
        return f"{self.kernel}({in_words({k: a for k, a in inputs.items() if k not in self.out})})"


class AnswerToldError(OptionError):
    """A prediction comes too late: this variation's answer has been told, after one that was wrong."""


class PredictionTask(Task):
    """Numbers that a student writes down before they are measured (kind P)."""

    answers: dict[str, str] = {}  # constant of the skeleton -> its unit
    within = 1.1  # the factor within which a prediction is right; 1 for exact ones

    def cases(self, v, rng):
        return []

    def expected(self, v: SimpleNamespace, mistake: str | None = None) -> dict[str, Any]:
        """Each answer, computed or measured; with one of `known`, what that mistake makes of it."""
        raise NotImplementedError

    def explain(self, v: SimpleNamespace) -> str:
        """How the numbers come about: told when the answer is revealed."""
        return ""

    def draw(self, seed: int) -> SimpleNamespace:
        """A variation on which no known mistake lies within the tolerance, nor near its edge."""
        rng = np.random.default_rng([self.number, seed])
        for _ in range(2000):
            v = self._varied(rng)
            right, far = self.expected(v), 1 + 1.5 * (self.within - 1)
            if all(max(factor(theirs[n], right[n]) for n in self.answers) > far for theirs in self._mistaken(v)):
                return v
        raise ValueError(f"exercise {self.number}: no variation was drawn that tells its mistakes from the answer")

    def _mistaken(self, v: SimpleNamespace) -> list[dict[str, Any]]:
        """What the known mistakes predict, those that have a prediction of their own."""
        found = []
        for mistake in self.known:
            with contextlib.suppress(NotImplementedError):
                found.append(self.expected(v, mistake))
        return found

    def check(self, submission, seed, *, hidden=None, seal=None) -> Verdict:
        """seal: writes the prediction down; gives what was sealed of this variation before, None if nothing."""
        v = self.draw(seed)
        verdict = Verdict(self.number, seed, False, "", notes=self._changed(submission, v))
        try:
            values = self._read(submission, verdict)
            for name, due in self.expected(v).items():  # before it is sealed: a slip costs no variation
                if slip := no_answer(values[name], due):
                    raise Refused("cannot-run", f"{name} is {str(values[name])[:40]!r}, where {slip}.")
        except (Refused, sandbox.Failed) as failed:
            verdict.mistake = getattr(failed, "mistake", None) or failed.kind
            verdict.message = getattr(failed, "message", None) or f"Your file: {failed.what}."
            return verdict
        earlier = seal(values) if seal is not None else None  # from here on the prediction cannot be changed
        if earlier is None:
            self._judge(verdict, v, values)
            return verdict
        self._judge(verdict, v, {name: _comparable(value) for name, value in earlier.items()})
        if not verdict.ok:
            raise AnswerToldError(
                f"the answer to this variation of exercise {self.number} has been told: minidecode exercise reset"
                f" {self.number} --fresh draws another"
            )
        verdict.message = f"Solved already. {verdict.message.removeprefix('Solved. ')}"
        return verdict

    def _read(self, submission: Submission, verdict: Verdict) -> dict[str, Any]:
        problem = forbidden_import(submission.source, submission.path.name, lambda top: False)
        if problem:
            raise Refused("forbidden", problem)
        with sandbox.for_numpy(None) as box:
            told = box.ask("load", source=submission.source, file=submission.path.name, package="")
            if "error" in told:
                raise Refused(*_load_error(told["error"]))
            read = box.ask("constants", names=list(self.answers)).get("values")
            read = read if isinstance(read, list) else []
            verdict.printed = box.printed
        values = dict(zip(self.answers, read, strict=False))
        missing = [name for name in self.answers if values.get(name) is None]
        if missing:
            raise Refused("not-started", f"Nothing is predicted yet: {', '.join(missing)} "
                                         f"{'is' if len(missing) == 1 else 'are'} None.")  # fmt: skip
        return values

    def _judge(self, verdict: Verdict, v: SimpleNamespace, values: dict[str, Any]) -> None:
        right = self.expected(v)
        factors = {name: factor(values[name], right[name]) for name in self.answers}
        limit = self.within + 1e-9
        told = {n: f if f < float("inf") else None for n, f in factors.items()}  # JSON has no infinity
        verdict.numbers = {"predicted": values, "measured": right, "factor": told}
        verdict.score = sum(1.0 if f <= limit else 0.5 if self.within > 1 and f <= 2 else 0.0
                            for f in factors.values()) / len(factors)  # fmt: skip
        verdict.ok = all(f <= limit for f in factors.values())
        told = []
        for name, unit in self.answers.items():
            mark = "right" if factors[name] <= limit else "wrong"
            exact = self.within == 1 or factors[name] in (1.0, float("inf"))
            off = "" if exact else f" (off by a factor of {factors[name]:.3g})"
            lines = "" if factors[name] == 1.0 else f"you said {shown(values[name])}, "
            told.append(f"{name}: {mark}, {lines}it is {shown(right[name])} {unit}".rstrip() + off)
        verdict.message = "; ".join(told) + "."
        if verdict.ok:
            verdict.message = f"Solved. {verdict.message}"
        else:
            mistakes = self._all_forgotten(v, values, right)
            verdict.mistake = next(iter(mistakes), None)
            verdict.message += f"\n{self._mistakes_text(mistakes, v, values, right)}"
        if why := self.explain(v):
            verdict.message += f"\n{why}"

    def _all_forgotten(self, v: SimpleNamespace, values: dict[str, Any], right: dict[str, Any]) -> dict[str, str]:
        """Known mistakes behind wrong answers, the first the one that counts -> the answer in which it shows."""
        mistake = self._forgotten(v, values, right)
        return {mistake: "Your prediction"} if mistake else {}

    def _mistakes_text(self, mistakes: dict[str, str], v: SimpleNamespace, values: dict[str, Any], right) -> str:
        """What is said of a prediction that is wrong."""
        lines = [f'{where} is what "{m.replace("-", " ")}" gives: {self.known[m]}.' for m, where in mistakes.items()]
        return "\n".join(lines) or "It is none of the mistakes that this exercise knows by name."

    def _forgotten(self, v: SimpleNamespace, values: dict[str, Any], right: dict[str, Any]) -> str | None:
        near = 1.01 if self.within > 1 else 1.0
        fits = []
        for mistake in self.known:
            theirs = self.expected(v, mistake)
            differs = any(factor(theirs[n], right[n]) > self.within for n in self.answers)
            if differs and all(factor(values[n], theirs[n]) <= near + 1e-9 for n in self.answers):
                fits.append((max(factor(values[n], theirs[n]) for n in self.answers), mistake))
        fits.sort()
        return fits[0][1] if fits and (len(fits) == 1 or fits[0][0] < fits[1][0]) else None


def factor(one: Any, two: Any) -> float:
    """By what one number is off from the other, from 1 up; of what is no number, 1 if equal and else infinity."""
    if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in (one, two)):
        return 1.0 if _comparable(one) == _comparable(two) else float("inf")
    if one == two:
        return 1.0
    if not (one > 0 and two > 0):
        return float("inf")
    try:
        return float(max(one / two, two / one))
    except OverflowError:
        return float("inf")


def no_answer(value: Any, due: Any) -> str | None:
    """What is due in place of a value that can be no answer: a number above 0, or so many whole ones, or ()."""
    if isinstance(due, int | float):
        if not isinstance(value, int | float) or isinstance(value, bool):
            return "a number is due"
        return None if 0 < value < float("inf") else "a number above 0 is due"
    whole = isinstance(value, tuple | list) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)
    return None if whole and len(value) in (0, len(due)) else f"{len(due)} whole numbers in brackets are due, or ()"


def _comparable(value: Any) -> Any:
    return tuple(map(_comparable, value)) if isinstance(value, list | tuple) else value


def shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _as_array(result: Any) -> Any:
    """A list of numbers as an array; all else as it is."""
    if not isinstance(result, list):
        return result
    try:
        array = np.asarray(result)
    except ValueError:  # rows of different lengths
        return result
    return array if array.dtype.kind in "biuf" else result


def edited_constants(source: str, due: dict[str, Any]) -> str:
    """What a file makes of its variation's constants, where they are no longer those that were drawn."""
    told = []
    with contextlib.suppress(SyntaxError):
        for statement in ast.parse(source).body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                with contextlib.suppress(ValueError):  # no plain value
                    if name in due and ast.literal_eval(statement.value) != due[name]:
                        told.append(f"{name} = {shown(due[name])}")
    if not told:
        return ""
    return f"This variation has {', '.join(told)}, and your file says otherwise: put it back first."


def waited_for(ran: SimpleNamespace, finding: dict[str, Any]) -> tuple[set[str], set[str]] | None:
    """What stands between writing an array and reading it where the finding saw it read, and what elsewhere.

    The names of barriers ("syncthreads", "syncwarp", ...) by their lines; None where no line that writes comes before.
    """
    written = [line for line in ran.written.get(finding["array"] or "", ()) for read in finding["reads"] if line < read]
    if not written:
        return None
    waits = {int(line): name for line, name in ran.waits.items()}
    between = {line for line in waits if max(written) < line <= min(r for r in finding["reads"] if r > max(written))}
    return {waits[line] for line in between}, {name for line, name in waits.items() if line not in between}


def time_for(trials: list[Trial]) -> float:
    """Seconds for all of them: hidden inputs come on top."""
    return sandbox.TOTAL * (2 if any(t.is_hidden for t in trials) else 1)


def several(result: Any) -> tuple:
    return result if isinstance(result, tuple) else (result,)


def same(got: Sequence, want: Sequence, bound: Any = 0.0) -> bool:
    """Whether outputs are equal up to the bound: one for all, or a tuple of one for each."""
    if different_kind((), got, want):
        return False
    bounds = _for_each(want, bound)
    return all(_near(np.asarray(g), np.asarray(w), b).all() for g, w, b in zip(got, want, bounds, strict=True))


def _told_by(outputs: Sequence) -> int:
    """How many whole numbers tell as much as these."""
    told = 0
    for array in map(np.asarray, outputs):
        finite = array[np.isfinite(array)]
        told += array.size + (WITH_A_FRACTION - 1) * int(np.count_nonzero(finite % 1))
    return told


def _for_each(want: Sequence, bound: Any) -> tuple:
    """A bound for each output."""
    return bound if isinstance(bound, tuple) else (bound,) * len(want)


def _near(got: np.ndarray, want: np.ndarray, bound: Any) -> np.ndarray:
    if got.dtype.kind in "biu" and want.dtype.kind in "biu":
        return got == want
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return (got == want) | (np.abs(got - want) <= bound) | (np.isnan(got) & np.isnan(want))


def different_kind(names: Sequence[str], got: Sequence, want: Sequence, in_place: int = 0) -> Miss | None:
    """What is wrong with the number, types or shapes of the outputs. in_place: how many are not returned."""
    if len(got) != len(want):
        due = len(want) - in_place
        return Miss(f"{due} result{'s are' if due != 1 else ' is'} due, and {len(got) - in_place} came back.")
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        name = names[k] if k < len(names) else "the result"
        if g is None:
            return Miss(f"{name} is None where an array of shape {np.shape(w)} is due: nothing was returned.")
        if not isinstance(g, np.ndarray | np.generic | int | float | bool):
            return Miss(f"{name} is {str(g)[:40]!r} where an array of shape {np.shape(w)} is due.")
        if np.shape(g) != np.shape(w):
            return Miss(f"{name} has the shape {np.shape(g)} where {np.shape(w)} is due.")
        kinds = np.asarray(g).dtype.kind, np.asarray(w).dtype.kind
        if kinds[0] not in "biuf" or any((kinds[0] == kind) != (kinds[1] == kind) for kind in "fb"):
            why = ": as an index, whole numbers are places, and booleans a mask" if set(kinds) <= set("biu") else ""
            due = {"f": "floating-point numbers are", "b": "booleans are"}.get(kinds[1], "whole numbers are")
            return Miss(f"{name} holds {np.asarray(g).dtype} where {due} due{why}.", "types")
    return None


def first_difference(names: Sequence[str], got: Sequence, want: Sequence, bound: Any = 0.0) -> str:
    """The first place where two outputs differ, in words."""
    for name, g, w, b in zip(names, got, want, _for_each(want, bound), strict=False):
        g, w = np.asarray(g), np.asarray(w)
        wrong = ~_near(g, w, b)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            is_unwritten = np.isnan(float(g[place])) or g[place] == POISON
            mine = "was never written" if is_unwritten else f"is {g[place]}"
            where = f"{name}{list(place)}" if place else name
            how_many = f" ({int(wrong.sum())} of {wrong.size} places are wrong)" if wrong.size > 1 else ""
            return f"{where} {mine}; right is {float(w[place]):.9g}{how_many}."
    return "The output is wrong."


def in_words(inputs: dict[str, Any]) -> str:
    """The inputs by name: numbers as they are, arrays by their shapes."""

    def one(name: str, value: Any) -> str:
        if isinstance(value, np.ndarray) and value.ndim:
            return f"{name} of shape {value.shape}"
        return name if isinstance(value, Callback) else f"{name}={value}"

    return ", ".join(one(name, value) for name, value in inputs.items())


def as_code(inputs: dict[str, Any]) -> str:
    """Python code that makes the inputs; their sizes alone where they are large."""
    lines = ["import numpy as np"]
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            lines.append(f"{name} = {_array_as_code(value)}")
        elif not isinstance(value, Callback):
            lines.append(f"{name} = {value!r}" if not isinstance(value, np.generic) else f"{name} = {value.item()!r}")
    code = "\n".join(lines)
    return code if len(code) <= LONGEST_CODE else of_this_size(inputs)


def of_this_size(inputs: dict[str, Any]) -> str:
    return f"one of this size: {in_words(inputs)}"


def _array_as_code(array: np.ndarray) -> str:
    """One number once, few runs of equal numbers by their lengths, all else number by number."""
    if array.size > 1 and np.array_equal(
        array, np.full_like(array, array.flat[0]), equal_nan=array.dtype.kind == "f"
    ):  # fmt: skip
        one = "np.nan" if np.isnan(float(array.flat[0])) else array.flat[0].item()
        return f"np.full({array.shape}, {one}, np.{array.dtype})"
    if array.ndim == 1 and array.dtype.kind in "iu":
        starts = np.flatnonzero(np.append(True, array[1:] != array[:-1]))
        if 10 * len(starts) < array.size:
            times = np.diff(np.append(starts, array.size)).tolist()
            return f"np.repeat(np.array({array[starts].tolist()}, np.{array.dtype}), {times})"
    text = np.array2string(array, separator=", ", threshold=10**6, max_line_width=110)
    return f"np.array({text.replace('inf', 'np.inf').replace('nan', 'np.nan')}, np.{array.dtype})"


def unwritten(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """An output that is not written yet; what stays unwritten is reported as such."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else POISON, dtype)


def rows_alike(inputs: dict[str, Any], *names: str) -> dict[str, Any]:
    """The inputs with row 0 of these arrays in every row."""
    return inputs | {n: np.broadcast_to(inputs[n][:1], inputs[n].shape).copy() for n in names}


def whole_width(inputs: dict[str, Any], length: str, width: int) -> dict[str, Any]:
    """The inputs with every length as wide as the array."""
    return inputs | {length: np.full_like(inputs[length], width)}


def told_apart(task: Task, v: SimpleNamespace, draw: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """An input, drawn until the right outputs and those of all known mistakes are different from each other on it."""
    for _ in range(2000):
        inputs, outputs = draw(), []
        for mistake in (None, *task.known):
            with contextlib.suppress(NotImplementedError):  # a mistake that outputs do not show
                outputs.append(several(task.expected(v, inputs, mistake)))
        if not any(same(one, two, task.bound(v, inputs)) for one, two in itertools.combinations(outputs, 2)):
            return inputs
    raise ValueError(f"exercise {task.number}: no input was drawn that tells its mistakes apart")


def seed_of(text: str) -> int:
    """A seed from a name, the same everywhere."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def is_neighbour(root: Path | None, module: str) -> bool:
    """Whether the student's own folder has this module."""
    return root is not None and ((root / f"{module}.py").is_file() or (root / module).is_dir())


def reads_global(access: dict[str, Any]) -> bool:
    """Whether an instruction of `Trial.ran.accesses` reads global memory: an atomic reads it, too."""
    return access["kind"] != "store" and not access["shared"]


def told_of_atomics(ran: SimpleNamespace) -> str:
    """How the atomics of a launch were counted, as a sentence; "" where there are none."""
    lines = sorted({a["line"] for a in ran.accesses if a["kind"] == "atomic"})
    if not lines:
        return ""
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    return f"\nAn atomic ({where}) reads and writes: each counts as a load and as a store."


def _place(error: dict[str, Any]) -> str:
    """Where code raised, if that is known, to begin a sentence with."""
    return f"line {error['line']}: " if error.get("line") else ""


def _why_failed(failed: sandbox.Failed) -> str:
    words = {"time": "an endless loop, or far too slow", "ended": "something ended the process"}
    return f" ({words[failed.kind]})" if failed.kind in words else ""


def _shapes_there(inputs: dict[str, Any], error: dict[str, Any]) -> str:
    """The student's own arrays where the code raised, if what it raised is about shapes."""
    about = ("shape", "axis", "axes", "dimension", "broadcast", "mismatch")
    if not any(word in str(error.get("message")) for word in about):
        return ""
    own = {str(name): tuple(shape) for name, (_, *shape) in error.get("arrays", {}).items() if name not in inputs}
    return f" There {', '.join(f'{name} is {shape}' for name, shape in own.items())}." if own else ""


def _load_error(error: Any) -> tuple[str, str]:
    """What a file raised that was loaded: the mistake, and in words."""
    error = error if isinstance(error, dict) else {}
    mistake = MISTAKES.get(str(error.get("type")), "cannot-run")
    return mistake, f"{_place(error)}{error.get('type')}: {error.get('message')}"


def _noted(callback: Callback, trial: Trial) -> Callable:
    """The callback's function, each call of it noted in the trial: counted here, where no one can patch the count."""
    signature = inspect.signature(callback.function)

    def call(*arguments: Any) -> Any:
        held = sum(getattr(a, "nbytes", 0) for _, done in trial.calls for a in done)
        if len(trial.calls) >= MOST_CALLS or held > MOST_BYTES_OF_CALLS:
            raise ValueError(f"{callback.name} has been called too often")
        trial.calls.append((callback.name, arguments))
        try:
            signature.bind(*arguments)
        except TypeError:
            told = f"{callback.name}({', '.join(signature.parameters)}) was called with {len(arguments)} argument(s)"
            raise TypeError(told) from None
        return callback.function(*arguments)

    return call


def _refused(reply: dict[str, Any]) -> None:
    if "refused" in reply:
        raise Refused(str(reply["refused"]), str(reply["message"]))
