"""Tasks that ask for numbers, which the student writes down."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...errors import OptionError
from . import sandbox
from .as_code import shown_value
from .exercise import Submission, Task
from .failures import load_error
from .kernel_source import Refused, forbidden_import
from .verdict import Verdict


class AnswerToldError(OptionError):
    """A prediction comes too late: this variation's answer has been told, after one that was wrong."""


class PredictionTask(Task):
    """Numbers that a student writes down before they are measured (kind P)."""

    answers: dict[str, str] = {}  # constant of the skeleton -> its unit
    within = 1.1  # the factor within which a prediction is right; 1 for exact ones

    def cases(self, v, rng):
        return []

    def expected_outputs(self, v: SimpleNamespace, mistake: str | None = None) -> dict[str, Any]:
        """Each answer, computed or measured; with one of `known`, what that mistake makes of it."""
        raise NotImplementedError

    def explain(self, v: SimpleNamespace) -> str:
        """How the numbers come about: told when the answer is revealed."""
        return ""

    def draw_variation(self, seed: int) -> SimpleNamespace:
        """A variation on which no known mistake lies within the tolerance, nor near its edge."""
        rng = np.random.default_rng([self.number, seed])
        for _ in range(2000):
            v = self._drawn_variation(rng)
            right, far = self.expected_outputs(v), 1 + 1.5 * (self.within - 1)
            if all(
                max(factor_between(theirs[n], right[n]) for n in self.answers) > far
                for theirs in self._mistaken_predictions(v)
            ):
                return v
        raise ValueError(f"exercise {self.number}: no variation was drawn that tells its mistakes from the answer")

    def _mistaken_predictions(self, v: SimpleNamespace) -> list[dict[str, Any]]:
        """What the known mistakes predict, those that have a prediction of their own."""
        predictions = []
        for mistake in self.known:
            with contextlib.suppress(NotImplementedError):
                predictions.append(self.expected_outputs(v, mistake))
        return predictions

    def check(self, submission, seed, *, hidden=None, seal=None) -> Verdict:
        """seal: writes the prediction down; gives what was sealed of this variation before, None if nothing."""
        v = self.draw_variation(seed)
        verdict = Verdict(self.number, seed, False, "", notes=self._changed_constants(submission, v))
        try:
            values = self._read(submission, verdict)
            for name, due in self.expected_outputs(v).items():  # before it is sealed: a slip costs no variation
                if slip := why_no_answer(values[name], due):
                    raise Refused("cannot-run", f"{name} is {str(values[name])[:40]!r}, where {slip}.")
        except (Refused, sandbox.Failed) as failed:
            verdict.mistake = getattr(failed, "mistake", None) or failed.kind
            verdict.message = getattr(failed, "message", None) or f"Your file: {failed.what}."
            return verdict
        earlier = seal(values) if seal is not None else None  # from here on the prediction cannot be changed
        if earlier is None:
            self._judge(verdict, v, values)
            return verdict
        self._judge(verdict, v, {name: _comparable_value(value) for name, value in earlier.items()})
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
        with sandbox.numpy_sandbox(None) as box:
            reply = box.ask("load", source=submission.source, file=submission.path.name, package="", measure=False)
            if "error" in reply:
                raise Refused(*load_error(reply["error"]))
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
        right = self.expected_outputs(v)
        factors = {name: factor_between(values[name], right[name]) for name in self.answers}
        limit = self.within + 1e-9
        finite = {n: f if f < float("inf") else None for n, f in factors.items()}  # JSON has no infinity
        verdict.numbers = {"predicted": values, "measured": right, "factor": finite}
        verdict.score = sum(1.0 if f <= limit else 0.5 if self.within > 1 and f <= 2 else 0.0
                            for f in factors.values()) / len(factors)  # fmt: skip
        verdict.ok = all(f <= limit for f in factors.values())
        sentences = []
        for name, unit in self.answers.items():
            mark = "right" if factors[name] <= limit else "wrong"
            exact = self.within == 1 or factors[name] in (1.0, float("inf"))
            off = "" if exact else f" (off by a factor of {factors[name]:.3g})"
            lines = "" if factors[name] == 1.0 else f"you said {shown_value(values[name])}, "
            sentences.append(f"{name}: {mark}, {lines}it is {shown_value(right[name])} {unit}".rstrip() + off)
        verdict.message = "; ".join(sentences) + "."
        if verdict.ok:
            verdict.message = f"Solved. {verdict.message}"
        else:
            mistakes = self._find_common_mistake(v, values, right)
            verdict.mistake = next(iter(mistakes), None)
            verdict.message += f"\n{self._mistakes_text(mistakes, v, values, right)}"
        if why := self.explain(v):
            verdict.message += f"\n{why}"

    def _find_common_mistake(self, v: SimpleNamespace, values: dict[str, Any], right: dict[str, Any]) -> dict[str, str]:
        """Known mistakes behind wrong answers, the first the one that counts -> the answer in which it shows."""
        mistake = self._name_mistake(v, values, right)
        return {mistake: "Your prediction"} if mistake else {}

    def _mistakes_text(self, mistakes: dict[str, str], v: SimpleNamespace, values: dict[str, Any], right) -> str:
        """The explanation of a wrong prediction."""
        lines = [f'{where} is what "{m.replace("-", " ")}" gives: {self.known[m]}.' for m, where in mistakes.items()]
        return "\n".join(lines) or "It is none of the mistakes that this exercise knows by name."

    def _name_mistake(self, v: SimpleNamespace, values: dict[str, Any], right: dict[str, Any]) -> str | None:
        near = 1.01 if self.within > 1 else 1.0
        fits = []
        for mistake in self.known:
            theirs = self.expected_outputs(v, mistake)
            differs = any(factor_between(theirs[n], right[n]) > self.within for n in self.answers)
            if differs and all(factor_between(values[n], theirs[n]) <= near + 1e-9 for n in self.answers):
                fits.append((max(factor_between(values[n], theirs[n]) for n in self.answers), mistake))
        fits.sort()
        return fits[0][1] if fits and (len(fits) == 1 or fits[0][0] < fits[1][0]) else None


def factor_between(one: Any, two: Any) -> float:
    """The larger of two numbers divided by the smaller. For other values: 1 if they are equal, else infinity."""
    if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in (one, two)):
        return 1.0 if _comparable_value(one) == _comparable_value(two) else float("inf")
    if one == two:
        return 1.0
    if not (one > 0 and two > 0):
        return float("inf")
    try:
        return float(max(one / two, two / one))
    except OverflowError:
        return float("inf")


def why_no_answer(value: Any, due: Any) -> str | None:
    """Why a value can be no answer: a number above 0 is due, or as many integers as in `due`, or (). Else None."""
    if isinstance(due, int | float):
        if not isinstance(value, int | float) or isinstance(value, bool):
            return "a number is due"
        return None if 0 < value < float("inf") else "a number above 0 is due"
    whole = isinstance(value, tuple | list) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)
    return None if whole and len(value) in (0, len(due)) else f"{len(due)} integers in brackets are due, or ()"


def _comparable_value(value: Any) -> Any:
    return tuple(map(_comparable_value, value)) if isinstance(value, list | tuple) else value
