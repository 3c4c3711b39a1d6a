"""A mistake's name is given where what it speaks of was seen; else what was seen is said, and no name.

Each answer here is a solution with a few lines changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from minidecode.exercises.exercise import Submission
from minidecode.exercises.find import find


def changed(number: int, seed: int, *edits: tuple[str, str], of: str = "solution", **how):
    """The verdict on a solution, or on a wrong answer, with these texts replaced."""
    exercise = find(str(number))
    source = _without_markers(exercise.varied(exercise.folder() / f"{of}.py", seed))
    for old, new in edits:
        assert source.count(old) >= 1, f"{old!r} does not stand in {of}.py"
        source = source.replace(old, new)
    return exercise.task.check(Submission(Path(exercise.file_name), source), seed, **how)


def _without_markers(source: str) -> str:
    inside = ("#|", "# --- was", "# --- your turn")
    return "\n".join(line for line in source.splitlines() if not line.strip().startswith(inside)) + "\n"


def seeds_where(number: int, count: int = 2, **due):
    """The first seeds whose variation has these values."""
    task, found = find(str(number)).task, []
    for seed in range(1, 200):
        v = vars(task.draw(seed))
        if all(v[name] == value for name, value in due.items()):
            found.append(seed)
        if len(found) == count:
            return found
    raise AssertionError(f"exercise {number} never draws {due}")


NOT_JOINED = ("    for thread in threads:\n        thread.join()\n", "")


@pytest.mark.parametrize(
    ("edits", "mistake", "said"),
    [
        ([NOT_JOINED], "not-joined", "is called by a thread when run has returned already"),
        ([("queue.Queue(ROOM), queue.Queue(ROOM * BATCH)", "queue.Queue(), queue.Queue(ROOM * BATCH)")],
         "unbounded", "lines were read and not written yet"),
        ([("write(*result)", "write(result[1], result[0])")], None, "It began with write("),
        ([("write(*result)", "pass"), ("done.put((k, result))", "write(k, result)")],
         "one-after-the-other", "write is called by the thread that called run"),
        ([("done.put(END)", "done.join()"), ("write(*result)", "write(*result); done.task_done()"), NOT_JOINED],
         None, "1 of its threads did not end"),
    ],
)  # fmt: skip
def test_a_pipeline_is_one(edits, mistake, said):
    verdict = changed(30, 3, *edits)
    assert not verdict.ok and verdict.mistake == mistake and said in verdict.message, str(verdict)
    assert "Traceback" not in str(verdict) and "child.py" not in str(verdict)


def test_what_a_thread_dies_of_is_told_in_a_line():
    verdict = changed(30, 3, ("write(*result)", "write(*result) + 1"))
    assert "in a thread: TypeError" in verdict.printed and "Traceback" not in str(verdict), str(verdict)
