"""What students write on their way: no mistake's name without evidence, and the line of numbers says what was seen.

Each is a solution with an edit or two.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from minidecode.exercises.exercise import Submission
from minidecode.exercises.find import find


def judged(number: int, *edits: tuple[str, str], seed: int = 0, base: str = "solution"):
    exercise = find(str(number))
    source = exercise.varied(exercise.folder() / f"{base}.py", seed)
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    return exercise.task.check(Submission(Path(exercise.file_name), source), seed)


# Exercise 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("guard", "mistake"),
    [
        ("y < a.shape[0] and x < a.shape[0]", "one-size-for-both"),
        ("y < a.shape[1] and x < a.shape[1]", "one-size-for-both"),
        ("y < a.shape[0] and x <= a.shape[1]", "less-or-equal"),
        ("not (y > a.shape[0] or x > a.shape[1])", "less-or-equal"),
        ("x < a.shape[1]", "guard-lets-through"),
        ("y < a.shape[0] - 1 and x < a.shape[1]", None),
        ("y < a.shape[0] + 2 and x < a.shape[1] + 1", "guard-lets-through"),
    ],
)
def test_guards(guard, mistake, seed):
    verdict = judged(1, ("y < a.shape[0] and x < a.shape[1]", guard), seed=seed)
    assert verdict.mistake == mistake and not verdict.ok, str(verdict)
    if "lies outside" in verdict.message and mistake is None:
        assert "none of the mistakes" not in verdict.message, "the index is said"
