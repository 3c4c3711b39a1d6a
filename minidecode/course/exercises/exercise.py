"""What the exercises share: how code is run, compared and answered. A task of `tasks/` fills in the rest.

A task is a class `Task` with one of three bases: `NumPyTask` (functions that run in the student's process),
`KernelTask` (a kernel that runs in the emulator), `PredictionTask` (numbers that the student writes down).
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...errors import InputError
from . import sandbox, skeleton
from .as_code import describe_size, inputs_as_code, shown_value
from .kernel_source import MOST_CHARACTERS, Refused
from .results import are_same, as_tuple, count_integers_of_same_information, find_fault_of_kind, first_difference
from .verdict import Miss, Verdict

MANY = 32  # numbers of an output that do not agree with a mistake's by chance
COMMON = {
    "not-started": "",
    "types": "",
    "row-0-for-all": "what belongs to row 0 is used for every row, which is right as long as all rows are alike",
    "reads-the-tail": "what a row's length leaves out is taken for data",
    "only-multiples-of-32": "sizes that 32 divides come out right, all others do not: the last, partial group is lost",
    "mutates-input": "the caller still needs what was handed in",
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
    after. again: what came of the same input otherwise, where a task tries that: see `NumPyTask.try_again`. probes: as
    again, where a task tries several things, by what each of them would show. peak, grown: bytes that the call and what
    the file keeps had at most beyond the inputs, told by the student's process, and seen by the system.
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
    probes: dict[str, Trial] = field(default_factory=dict)
    left_running: int = 0
    peak: int | None = None
    grown: int | None = None
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
        """The constants drawn for each student: in the skeleton in capitals, in the text as {{name}}."""
        return {}

    def cases(self, v: SimpleNamespace, rng: np.random.Generator) -> list[dict[str, Any]]:
        """Inputs by name in the order of the parameters, from small to large; sizes drawn, so that none is known."""
        raise NotImplementedError

    def expected_outputs(
        self, v: SimpleNamespace, inputs: dict[str, Any], mistake: str | None = None, ran: Any = None
    ) -> Any:
        """The right outputs, in float64 or whole numbers, by the plainest loops; with one of `known`, its outputs."""
        raise NotImplementedError

    def error_bound(self, v: SimpleNamespace, inputs: dict[str, Any]) -> Any:
        """How far an output may lie from the expected one: computed, not guessed. By default not at all."""
        return 0.0

    def describe_difference(self, v: SimpleNamespace, inputs: dict[str, Any], got: tuple, want: tuple) -> str:
        """The mistake in this output, in one sentence that names row, place and numbers."""
        return f"{self.call(inputs)}: {first_difference(self.returns, got, want, self.error_bound(v, inputs))}"

    def alter_inputs(self, v: SimpleNamespace, inputs: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Inputs on which right code does what common mistakes do here: `repeat_first_row`, `set_to_whole_width`."""
        return {}

    def size_for_multiples(self, v: SimpleNamespace, inputs: dict[str, Any]) -> int | None:
        """The size that may or may not be a multiple of 32."""
        return None

    def find_excess_cost(self, v: SimpleNamespace, trial: Trial) -> Miss | None:
        """A limit that is exceeded although the output is right: loads, sectors, calls or bytes."""
        return None

    # How it is judged

    def draw_variation(self, seed: int) -> SimpleNamespace:
        return self._drawn_variation(np.random.default_rng([self.number, seed]))

    def _drawn_variation(self, rng: np.random.Generator) -> SimpleNamespace:
        drawn = self.variation(rng)
        return SimpleNamespace(**{k: v.item() if isinstance(v, np.generic) else v for k, v in drawn.items()})

    def constants(self, v: SimpleNamespace) -> dict[str, Any]:
        return {name.upper(): value for name, value in vars(v).items()}

    def _changed_constants(self, submission: Submission, v: SimpleNamespace) -> list[str]:
        """Which drawn constants the student's file says otherwise; in another layout they may mean anything."""
        return [] if submission.names else skeleton.changed_constants(submission.source, self.constants(v))

    def make_rng(self, seed: int, hidden: int | None = None) -> np.random.Generator:
        return np.random.default_rng([self.number, seed, 1] if hidden is None else [self.number, seed, 2, hidden])

    def check(
        self, submission: Submission, seed: int, *, hidden: int | None = None,
        seal: Callable[[dict], dict | None] | None = None,
    ) -> Verdict:  # fmt: skip
        """The verdict on a submission. hidden: the teacher's seed, for inputs that no student has seen."""
        v = self.draw_variation(seed)
        trials = [Trial(case) for case in self.cases(v, self.make_rng(seed))]
        if hidden is not None:
            trials += [Trial(case, is_hidden=True) for case in self.cases(v, self.make_rng(seed, hidden))]
        return self.judge(submission, seed, v, trials)

    def judge(self, submission: Submission, seed: int, v: SimpleNamespace, trials: list[Trial]) -> Verdict:
        """The verdict on a submission by these inputs; what came of each is noted in its trial."""
        verdict = Verdict(self.number, seed, True, "", notes=self._changed_constants(submission, v))
        try:
            self.run(submission, v, trials, verdict)
        except Refused as refused:
            verdict.ok, verdict.mistake, verdict.message = False, refused.mistake, refused.message
            if refused.mistake == "not-started":
                verdict.message = f"Not started yet ({refused.message})."
            return verdict
        tried = [t for t in trials if t.got is not None or t.raised or t.ran or t.miss]
        for trial in tried:
            trial.miss = trial.miss or self.find_wrong_output(v, trial) or self.find_excess_cost(v, trial)
        first = next((t for t in tried if t.miss), None)
        if first is None:
            verdict.message = f"Solved: right on all {len(tried)} inputs. {self.praise(v, tried)}".strip()
            return verdict
        self._fill_in_failure(verdict, v, tried, first)
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

    def summarize_trials(self, v: SimpleNamespace, tried: list[Trial]) -> str:
        """What all trials together say where one of them failed, such as how many came out right by luck."""
        return ""

    def find_wrong_output(self, v: SimpleNamespace, trial: Trial) -> Miss | None:
        """The mistake in the output. A task that has many right answers, such as plans, judges them here."""
        if trial.got is None:
            return None
        want = as_tuple(self.expected_outputs(v, trial.inputs, None, trial.ran))
        if are_same(trial.got, want, self.error_bound(v, trial.inputs)):
            return None
        if problem := find_fault_of_kind(self.returns, trial.got, want, len(self.changes)):
            return problem
        return Miss(self.describe_difference(v, trial.inputs, trial.got, want), is_of_value=True)

    def _fill_in_failure(self, verdict: Verdict, v: SimpleNamespace, tried: list[Trial], first: Trial) -> None:
        miss = first.miss
        mistake = miss.mistake or self.recognise_mistake(v, tried)
        if mistake is None and first.is_hidden:
            mistake = "only-public-inputs"
        verdict.ok, verdict.mistake, verdict.numbers, verdict.picture = False, mistake, miss.numbers, miss.picture
        verdict.message = f"{miss.message} {self.summarize_trials(v, tried)}".rstrip()
        what = self.known.get(mistake or "") or COMMON.get(mistake or "")
        if mistake == "only-public-inputs":
            verdict.message += " All inputs that `check` tries come out right; this one is the teacher's."
        elif mistake and what and miss.is_of_value:
            verdict.message += f'\nYour output is what "{mistake.replace("-", " ")}" gives: {what}.'
        elif mistake and what:
            verdict.message += f'\nThis is "{mistake.replace("-", " ")}": {what}.'
        elif mistake is None and miss.is_of_value and not miss.is_explained:  # all else has said why it is wrong
            here = self.recognise_on_first_input(v, tried, first)
            what = self.known.get(here or "") or COMMON.get(here or "")
            verdict.message += (
                f'\nOn this input your output is what "{here.replace("-", " ")}" gives: {what}. Something'
                " else is wrong elsewhere."
                if here
                else "\nIt is none of the mistakes that this exercise knows by name."
            )
        if miss.shows_input and not first.is_hidden:
            verdict.input = inputs_as_code(first.inputs) if miss.values_matter else describe_size(first.inputs)

    def recognise_mistake(self, v: SimpleNamespace, tried: list[Trial]) -> str | None:
        """The one known mistake that gives these outputs on every input; None if there is none, or more than one."""
        fits = [
            m
            for m in self.known
            if self._matches_all_trials(v, tried, lambda t, m=m: self.expected_outputs(v, t.inputs, m, t.ran))
        ]
        if not fits:
            common = {name for t in tried for name in self.alter_inputs(v, t.inputs)}
            fits = [m for m in sorted(common) if self._matches_all_trials(
                v, tried,
                lambda t, m=m: self.expected_outputs(v, self.alter_inputs(v, t.inputs)[m], None, t.ran))]  # fmt: skip
        if len(fits) == 1:
            return fits[0]
        return "only-multiples-of-32" if not fits and self._fails_only_off_multiples(v, tried) else None

    def recognise_on_first_input(self, v: SimpleNamespace, tried: list[Trial], first: Trial) -> str | None:
        """The mistake that gives the first wrong output, where no single mistake gives all outputs (two at once).

        It needs that no output is right that this mistake would make wrong, that something else is wrong elsewhere, and
        MANY numbers, or another input on which it is so.
        """
        right = [t for t in tried if not t.miss and t.got is not None]
        others = [t for t in tried if t.miss and t is not first]
        fits = []
        for mistake in [*self.known, *self.alter_inputs(v, first.inputs)]:

            def outputs(t: Trial, m: str = mistake) -> Any:
                if m in self.known:
                    return self.expected_outputs(v, t.inputs, m, t.ran)
                return self.expected_outputs(v, self.alter_inputs(v, t.inputs)[m], None, t.ran)

            if self._matches_trial(v, first, outputs) and all(self._matches_trial(v, t, outputs) for t in right):
                fits.append((mistake, [self._matches_trial(v, t, outputs) for t in others]))
        if (
            len(fits) != 1
            or all(fits[0][1])
            or not (any(fits[0][1]) or count_integers_of_same_information(first.got) >= MANY)
        ):
            return None
        return fits[0][0]

    def _matches_trial(self, v: SimpleNamespace, trial: Trial, outputs: Callable[[Trial], Any]) -> bool:
        """Whether these are the outputs of a trial that has some."""
        try:
            theirs = as_tuple(outputs(trial))
        except (NotImplementedError, ValueError, IndexError, KeyError):  # this mistake has no outputs of its own
            return False
        return trial.got is not None and are_same(trial.got, theirs, self.error_bound(v, trial.inputs))

    def _matches_all_trials(self, v: SimpleNamespace, tried: list[Trial], outputs: Callable[[Trial], Any]) -> bool:
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
        return all(self._matches_trial(v, trial, outputs) for trial in judged)

    def _fails_only_off_multiples(self, v: SimpleNamespace, tried: list[Trial]) -> bool:
        if any(t.miss and not t.miss.is_of_value for t in tried):
            return False  # something else was seen: nothing is lost where an index lies outside
        sized = [(self.size_for_multiples(v, t.inputs), t.miss is None) for t in tried]
        sized = [(size, fine) for size, fine in sized if size]
        return bool(sized) and {fine for _, fine in sized} == {True, False} and all(
            fine == (size % 32 == 0) for size, fine in sized)  # fmt: skip


def edited_constants(source: str, due: dict[str, Any]) -> str:
    """What a file makes of its variation's constants, where they are no longer those that were drawn."""
    edited = []
    with contextlib.suppress(SyntaxError):
        for statement in ast.parse(source).body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                with contextlib.suppress(ValueError):  # no plain value
                    if name in due and ast.literal_eval(statement.value) != due[name]:
                        edited.append(f"{name} = {shown_value(due[name])}")
    if not edited:
        return ""
    return f"This variation has {', '.join(edited)}, and your file says otherwise: put it back first."


def seconds_for_trials(trials: list[Trial]) -> float:
    """The seconds allowed for all trials: twice as many with hidden inputs."""
    return sandbox.TOTAL * (2 if any(t.is_hidden for t in trials) else 1)


def repeat_first_row(inputs: dict[str, Any], *names: str) -> dict[str, Any]:
    """The inputs with row 0 of these arrays in every row."""
    return inputs | {n: np.broadcast_to(inputs[n][:1], inputs[n].shape).copy() for n in names}


def set_to_whole_width(inputs: dict[str, Any], length: str, width: int) -> dict[str, Any]:
    """The inputs with every length as wide as the array."""
    return inputs | {length: np.full_like(inputs[length], width)}


def draw_telling_input(task: Task, v: SimpleNamespace, draw: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """An input, drawn until the right outputs and those of all known mistakes are different from each other on it."""
    for _ in range(2000):
        inputs, outputs = draw(), []
        for mistake in (None, *task.known):
            with contextlib.suppress(NotImplementedError):  # a mistake that outputs do not show
                outputs.append(as_tuple(task.expected_outputs(v, inputs, mistake)))
        if not any(are_same(one, two, task.error_bound(v, inputs)) for one, two in itertools.combinations(outputs, 2)):
            return inputs
    raise ValueError(f"exercise {task.number}: no input was drawn that tells its mistakes apart")


def seed_from_name(text: str) -> int:
    """A seed from a name, the same everywhere."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
