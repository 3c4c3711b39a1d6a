"""One check of a student's work, the same on the command line and in a notebook: the verdict, and what is kept."""

from __future__ import annotations

from pathlib import Path

from ...errors import OptionError
from . import skeleton
from .exercise import Submission
from .find import Exercise
from .folder import Folder
from .prediction_task import AnswerToldError
from .verdict import Verdict


def check(
    exercise: Exercise, submission: Submission, folder: Folder, asked: int | None = None
) -> tuple[Verdict, Path | None]:
    """(the verdict, the file of its picture if it has one).

    asked: the variation that the caller names; by default the one that the file says it holds. Raises OptionError where
    the file holds another one, and where its answer has been told.
    """
    held = skeleton.seed_in_source(submission.source, exercise.number)
    if held is not None and asked is not None and not exercise.is_due(held, asked):
        raise OptionError(
            f"{submission.path} holds variation {held}, and {asked} was asked for: minidecode exercise reset"
            f" {exercise.number}{folder.as_option} with the same --seed or --student starts that one"
        )
    is_said, is_elsewhere = held is not None, bool(submission.names)
    if not is_said:
        held = asked if asked is not None else folder.seed(exercise) or 0
    try:
        verdict = exercise.check(submission, held, seal=lambda values: folder.seal_prediction(exercise, held, values))
    except AnswerToldError as error:
        if not is_said:
            raise
        folder.renew_variation(exercise, submission.path, held)
        raise OptionError(
            f"the answer to variation {held} of exercise {exercise.number} has been told: predict the new one, which"
            f" {submission.path} holds now (what you wrote stays there)"
        ) from error
    if not is_said and not is_elsewhere:
        verdict.notes.append(
            f"{submission.path} does not say its variation (the line # --- variation is gone or changed): judged was"
            f" {held}."
        )
    if not is_elsewhere:
        _renew_if_answer_told(folder, exercise, submission.path, held, verdict)
    is_of_folder = submission.path.resolve() == folder.path_of_exercise(exercise).resolve()
    return verdict, folder.keep_verdict(exercise, verdict, submission.source if is_of_folder else None)


def _renew_if_answer_told(folder: Folder, exercise: Exercise, path: Path, seed: int, verdict: Verdict) -> None:
    """After the answer to a prediction has been told, the next try is about other numbers."""
    if exercise.text.kind == "P" and not verdict.ok and verdict.score is not None:
        folder.renew_variation(exercise, path, seed)
        note = f"That was this variation; {path.name} holds a fresh one now."
        is_kept = f"\n# variation {seed}: " in path.read_text(encoding="utf-8-sig")
        verdict.notes.append(f"{note} Your prediction is kept there as a comment." if is_kept else note)
