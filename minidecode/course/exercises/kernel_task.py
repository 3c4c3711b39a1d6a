"""Tasks whose kernel runs in the emulator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from . import sandbox
from .as_code import inputs_in_words
from .exercise import Submission, Task, Trial, seconds_for_trials
from .failures import why_failed
from .kernel_source import Refused
from .verdict import Miss, Verdict


class KernelTask(Task):
    """A kernel (kinds K, C and M): taken out of the file as data, typed by Numba, run by the emulator."""

    kernel = ""
    shape = "launch_shape"  # the file's function that gives (blocks, threads); "" if `blocks_and_threads` does
    out: tuple[str, ...] = ("out",)  # arrays among the inputs that the kernel writes: the outputs
    mistake_of: dict[str, str] = {}  # kind of a finding of the emulator -> stable name of a mistake
    ranked = ""  # the count that the league ranks by: the fewest come first

    @property
    def returns(self) -> tuple[str, ...]:
        return self.out

    def shape_arguments(self, v: SimpleNamespace, inputs: dict[str, Any]) -> list:
        """What `launch_shape` is called with: numbers."""
        return []

    def blocks_and_threads(self, v: SimpleNamespace, inputs: dict[str, Any]) -> tuple | None:
        """(blocks, threads), where they are given, not asked of the student."""
        return None

    def disguise_inputs(self, v: SimpleNamespace, inputs: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """Other inputs that are as much work as these: by default the same numbers, each row in another order."""
        return inputs | {name: rng.permuted(a, axis=-1) for name, a in inputs.items()
                         if isinstance(a, np.ndarray) and a.ndim and name not in self.out}  # fmt: skip

    def emulator_options(self, v: SimpleNamespace, inputs: dict[str, Any]) -> dict[str, Any]:
        """Options of `md.emulate`, such as {"negative_indices": True}."""
        return {}

    def mistake_of_finding(self, v: SimpleNamespace, trial: Trial, finding: dict[str, Any]) -> str | None:
        """The known mistake behind an error that the emulator found.

        What nothing has written is a matter of who waits only in shared memory, before the block's first barrier; and
        where the reading thread has passed by a barrier at which others wait, of where that stands.
        """
        if finding.get("passed_by"):
            return "barrier-inside-if" if "barrier-inside-if" in self.known else None
        if finding["kind"] == "uninitialised" and (finding["space"] != "shared" or finding["epoch"]):
            return None
        return self.mistake_of.get(finding["kind"])

    def explain_finding(self, v: SimpleNamespace, trial: Trial, finding: dict[str, Any]) -> str:
        """What else is to be seen in it, as a sentence."""
        return ""

    def run(self, submission: Submission, v: SimpleNamespace, trials: list[Trial], verdict: Verdict) -> None:
        kernel = submission.names.get(self.kernel, self.kernel)
        try:
            with sandbox.kernel_sandbox() as box:
                box.end_after(seconds_for_trials(trials))
                reply = box.ask("load", source=submission.source, file=submission.path.name, kernel=kernel,
                               shape=submission.names.get(self.shape, self.shape))  # fmt: skip
                _raise_refused(reply)
                for trial in trials:
                    self._judge_trial(box, v, trial, verdict)
                    if trial.ran:
                        trial.ran.source = submission.source
                    kinds = {f["kind"] for f in trial.ran.findings} if trial.ran else set()
                    if (trial.miss and trial.miss.mistake in ("time", "memory", "ended")) or "endless" in kinds:
                        break  # it would only take as long again
        except sandbox.Failed as failed:
            raise Refused(failed.kind, f"While the kernel was read: {failed.what}.") from None

    def _judge_trial(self, box: sandbox.Sandbox, v: SimpleNamespace, trial: Trial, verdict: Verdict) -> None:
        inputs = trial.inputs
        is_first_to_fail = verdict.picture is None
        try:
            reply = box.ask("run", arguments=list(inputs.values()), shape_arguments=self.shape_arguments(v, inputs),
                            launch=self.blocks_and_threads(v, inputs), options=self.emulator_options(v, inputs),
                            picture=is_first_to_fail)  # fmt: skip
        except sandbox.Failed as failed:
            trial.miss = Miss(f"{self.call(inputs)}: {failed.what}{why_failed(failed)}.", failed.kind)
            return
        _raise_refused(reply)
        blocks, threads = map(tuple, reply["launch"])
        trial.ran = SimpleNamespace(blocks=blocks, threads=threads, **{
            k: reply[k] for k in ("counts", "lines", "accesses", "findings", "costs", "types", "picture", "shared",
                                  "names", "waits", "written", "exchanged", "handed_over", "loads_of_threads",
                                  "shared_bytes")})  # fmt: skip
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
            mistake = self.mistake_of_finding(v, trial, errors[0])
            message = (
                f"{self.call(inputs)}: {errors[0]['message']} {self.explain_finding(v, trial, errors[0])}".rstrip()
            )
            trial.miss = Miss(message, mistake, picture=reply["picture"], is_explained=True,
                              values_matter=errors[0]["kind"] in ("outside", "python", "endless"))  # fmt: skip
            return
        trial.got = trial.left
        changed = [n for n, a in after.items() if n not in self.out and a.tobytes() != inputs[n].tobytes()]
        if changed:
            trial.miss = Miss(f"{self.call(inputs)} wrote into its input {changed[0]}.", "mutates-input")

    def _fill_in_failure(self, verdict: Verdict, v: SimpleNamespace, tried: list[Trial], first: Trial) -> None:
        super()._fill_in_failure(verdict, v, tried, first)
        if first.ran and first.miss.numbers and "atomic" not in verdict.message:  # it is about what was counted
            verdict.message += note_on_atomics(first.ran)

    def find_wrong_output(self, v: SimpleNamespace, trial: Trial) -> Miss | None:
        miss = super().find_wrong_output(v, trial)
        if miss and trial.ran.counts["atomics"] and "was never written" in miss.message:
            miss.message += " An atomic changes what is there, and nothing had been put there before."
            miss.is_explained = True
        elif miss and self.shape and "was never written" in miss.message:
            blocks, threads = (" x ".join(map(str, size)) for size in (trial.ran.blocks, trial.ran.threads))
            miss.message += f" {self.shape} asked for {blocks} block(s) of {threads} threads."
        return miss

    def call(self, inputs: dict[str, Any]) -> str:
        return f"{self.kernel}({inputs_in_words({k: a for k, a in inputs.items() if k not in self.out})})"


def waits_between(ran: SimpleNamespace, finding: dict[str, Any]) -> tuple[set[str], set[str]] | None:
    """What stands between writing an array and reading it where the finding saw it read, and what elsewhere.

    The names of barriers ("syncthreads", "syncwarp", ...) by their lines; None where no line that writes comes before.
    """
    written = [line for line in ran.written.get(finding["array"] or "", ()) for read in finding["reads"] if line < read]
    if not written:
        return None
    waits = {int(line): name for line, name in ran.waits.items()}
    between = {line for line in waits if max(written) < line <= min(r for r in finding["reads"] if r > max(written))}
    return {waits[line] for line in between}, {name for line, name in waits.items() if line not in between}


def reads_global(access: dict[str, Any]) -> bool:
    """Whether an instruction of `Trial.ran.accesses` reads global memory: an atomic reads it, too."""
    return access["kind"] != "store" and not access["shared"]


def note_on_atomics(ran: SimpleNamespace) -> str:
    """How the atomics of a launch were counted, as a sentence; "" where there are none."""
    lines = sorted({a["line"] for a in ran.accesses if a["kind"] == "atomic"})
    if not lines:
        return ""
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    return f"\nAn atomic ({where}) reads and writes: each counts as a load and as a store."


def _raise_refused(reply: dict[str, Any]) -> None:
    if "refused" in reply:
        raise Refused(str(reply["refused"]), str(reply["message"]))
