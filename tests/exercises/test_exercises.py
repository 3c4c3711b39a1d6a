"""Every exercise keeps its promises: its skeleton fails, its solutions pass, its wrong answers are known by name.

Exercises are found by their files. What stands here holds for all of them; nothing is to be added for a new one.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import numpy as np
import pytest

from minidecode.course.exercises import skeleton
from minidecode.course.exercises.exercise import COMMON, Submission
from minidecode.course.exercises.find import exercises, find
from minidecode.course.exercises.numpy_task import NumPyTask
from minidecode.course.exercises.prediction_task import PredictionTask

SEED = 20261
# Solutions and wrong answers must be told apart whatever is drawn. Authors try more: MINIDECODE_EXERCISE_SEEDS=10
OTHER_SEEDS = range(1, 1 + int(os.environ.get("MINIDECODE_EXERCISE_SEEDS", "1")))
ROOT = Path(__file__).parents[2]
ALL = list(exercises().values())
SOLUTIONS = [(e, name, seed) for e in ALL for name in ("solution", "another") for seed in (SEED, *OTHER_SEEDS)]
WRONG = [(e, path) for e in ALL for path in sorted((ROOT / "exercises").glob(f"{e.number:02d}_{e.name}/wrong/*.py"))]


def judged(exercise, path: Path, seed: int, **how):
    source = exercise.vary_source(path, seed)
    return exercise.task.check(Submission(Path(path.name), source), seed, **how)


def label(value):
    return getattr(value, "name", None) if isinstance(value, type(ALL[0])) else getattr(value, "stem", str(value))


@pytest.mark.parametrize("exercise", ALL, ids=label)
def test_an_exercise_is_complete(exercise):
    folder, text = exercise.folder(), exercise.text
    assert folder, "exercises/NN_name/solution.py is missing"
    assert (folder / "another.py").is_file(), "two correct solutions, in different styles"
    wrong = {p.stem.replace("_", "-") for p in (folder / "wrong").glob("*.py")}
    assert "unknown" in wrong, "wrong/unknown.py: a mistake that nobody has named"
    named = wrong - {"unknown"}
    assert len(named & set(exercise.task.known)) >= 3, "three wrong answers with stable names, or more"
    assert named <= {*exercise.task.known, *COMMON}
    assert set(exercise.task.known) <= named, "a mistake that is known by name is shown by an answer"
    assert text.kind in "NKMCP" and text.minutes > 0 and text.hours in (None, 3, 8, 15)


@pytest.mark.parametrize("exercise", ALL, ids=label)
def test_a_skeleton_fails_and_holds_no_answer(exercise):
    source = exercise.start(SEED)
    ast.parse(source)
    assert "--- your turn" not in source and "--- was" not in source and "{{" not in source and "#|" not in source
    assert skeleton.seed_in_source(source, exercise.number) == SEED
    verdict = exercise.task.check(Submission(Path(exercise.file_name), source), SEED)
    assert not verdict.ok and verdict.message and "Traceback" not in str(verdict)


@pytest.mark.parametrize(("exercise", "name", "seed"), SOLUTIONS, ids=label)
def test_a_solution_passes(exercise, name, seed):
    verdict = judged(exercise, exercise.folder() / f"{name}.py", seed, hidden=seed + 1)
    assert verdict.ok, str(verdict)
    assert not verdict.notes, "a solution computes nothing in float64 by accident"


@pytest.mark.parametrize(("exercise", "path"), WRONG, ids=label)
def test_a_wrong_answer_gets_its_own_name_and_no_other(exercise, path):
    due = None if path.stem == "unknown" else path.stem.replace("_", "-")
    for seed in OTHER_SEEDS:
        verdict = judged(exercise, path, seed)
        assert not verdict.ok
        assert verdict.mistake == due, str(verdict)
        if due is None:
            assert 'This is "' not in verdict.message and "is what " not in verdict.message
        assert len(verdict.message) > 30 and not any(s in str(verdict) for s in ("Traceback", "site-packages"))


@pytest.mark.parametrize("exercise", [e for e in ALL if not isinstance(e.task, PredictionTask)], ids=label)
def test_inputs_grow_and_differ_by_seed(exercise):
    """The first input that fails is a small one; and nobody can know the teacher's."""
    task = exercise.task
    v = task.draw_variation(SEED)
    public, hidden = task.cases(v, task.make_rng(SEED)), task.cases(v, task.make_rng(SEED, 5))
    sizes = [sum(np.size(a) for a in case.values() if isinstance(a, np.ndarray)) for case in public]
    assert len(public) >= 3 and sizes[0] < sizes[-1] and sizes[0] == min(sizes)
    assert repr(public) != repr(hidden)


@pytest.mark.parametrize("exercise", [e for e in ALL if isinstance(e.task, NumPyTask)], ids=label)
def test_what_is_no_answer_is_told_in_words(exercise):
    """A `return` that was forgotten is a student's mistake like another."""
    for given in ("None", "'text'", "np.zeros(0)", "[[1], [2, 3]]"):
        source = f"import numpy as np\n\n\ndef {exercise.task.function}(*given):\n    return {given}\n"
        verdict = exercise.task.check(Submission(Path(exercise.file_name), source), SEED)
        assert not verdict.ok and verdict.message and "Traceback" not in str(verdict)


def test_there_is_one_copy_of_a_skeleton():
    assert not (ROOT / "minidecode" / "exercises" / "skeletons").exists(), "the build of the wheel makes it"


@pytest.mark.parametrize(
    "bad",
    ["# --- your turn: x\n", "# --- end\n", "# --- was\n# --- your turn: y\n# --- end\n", "# --- variation\nN = 1\n"],
)
def test_markers_that_do_not_match_are_refused(bad):
    with pytest.raises(skeleton.MarkerError):
        skeleton.strip_solution(bad)


def test_markers():
    solution = '"""Mine."""\n\ndef f():\n    # --- your turn: say one\n    return 1\n    # --- end\n'
    assert skeleton.strip_solution(solution) == (
        'def f():\n    # your turn: say one\n    raise NotImplementedError("your turn: say one")\n'
    )
    mended = "def f(a):\n    # --- was\n    #| return a +\n    #|     1\n    return a\n    # --- end\n"
    assert skeleton.strip_solution(mended) == "def f(a):\n    return a +\n        1\n"


def test_a_constant_of_several_lines_is_read_back_as_it_was():
    text = " 1  a = 1\n 2  b = 2\n"
    source = skeleton.replace_variation("# --- variation\nP = 0\n# --- end\n", 9, 4, {"PROGRAM": text, "N": 3})
    names = {}
    exec(source, names)
    assert names["PROGRAM"] == text and names["N"] == 3
    assert source.splitlines()[2] == " 1  a = 1", "lines are numbered as they stand there"


def test_what_all_trials_say_together_is_told():
    """A kernel that races may be right all the same, which only its outputs behind the error can tell."""
    race = find("tile_race")
    verdict = judged(race, race.folder() / "wrong" / "syncwarp_for_a_block.py", SEED)
    assert "Threads race on" in verdict.message and "the numbers are right" in verdict.message


@pytest.mark.parametrize("seed", range(6))
def test_pads_are_told_by_lengths_and_not_by_their_value(seed):
    """A text of exercise 15 may hold the pad's id, within it and where it lies at the pads."""
    ban = find("ngram_ban")
    solution = ban.vary_source(ban.folder() / "solution.py", seed)
    end, kept = ("0", "1:") if ban.task.draw_variation(seed).padding == "left" else ("-1", ":-1")
    lines = ["text = tokens_RM[r]", f"while len(text) and text[{end}] == PAD:", f"    text = text[{kept}]",
             "used = len(text)"]  # fmt: skip
    by_value = "".join(f"        {line}\n" for line in lines)
    stripped = re.sub(r"        width = .*\n        text = .*\n", by_value, solution)
    assert stripped != solution
    verdict = ban.task.check(Submission(Path("ban.py"), stripped), seed, hidden=seed + 1)
    assert not verdict.ok and "should" in verdict.message


@pytest.mark.parametrize("seed", range(3))
def test_the_smallest_input_of_the_ngram_kernel_is_read_at_a_glance(seed):
    """Each mistake that has a name shows on a line or two, although only long rows have starts beyond a block."""
    ban = find("ngram_kernel")
    for path in (ban.folder() / "wrong").glob("*.py"):
        verdict = judged(ban, path, seed)
        is_counted = path.stem == "one_thread_for_all"  # which shows on long rows alone
        assert path.stem == "unknown" or is_counted or len(verdict.input) < 280, verdict.input
        assert "Nothing is banned" not in verdict.message


def test_a_kernel_that_writes_nothing_is_told_so():
    ban = find("ngram_kernel")
    solution = ban.vary_source(ban.folder() / "solution.py", 1)
    source = re.sub(r"(?s)(?<=length_R\):\n).*?# --- end", "    pass", solution, count=1)
    verdict = ban.task.check(Submission(Path("ban.py"), source), 1)
    assert not verdict.ok and "Nothing is banned on any of the 7 inputs." in verdict.message
