"""The commands of the exercises: what a student and a teacher do with them."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest

from minidecode.course.exercises import skeleton
from minidecode.course.exercises.exercise import seed_from_name
from minidecode.course.exercises.find import exercises, find

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def solve(exercise, folder: Path, seed: int, name: str = "solution") -> Path:
    """Hands in a solution, or one of the wrong answers."""
    folder.mkdir(parents=True, exist_ok=True)
    source = next(
        p for p in (exercise.folder() / f"{name}.py", exercise.folder() / "wrong" / f"{name}.py") if p.exists()
    )
    path = folder / exercise.file_name
    path.write_text(exercise.vary_source(source, seed), encoding="utf-8")
    return path


def test_a_student_starts_fails_and_solves(cli, here):
    ran = cli("exercise", "start", "15", "--seed", 5)
    file = here / "my_exercises" / "15_ngram_ban.py"
    assert ran.code == 0 and Path(ran.out.strip()) == file.relative_to(here)
    ran = cli("exercise", "check", "15")
    assert ran.code == 1 and ran.out.startswith("Not begun: this is the file as it was started (line ")
    solve(find("15"), file.parent, 5, "last_window_lost")
    ran = cli("exercise", "check", "ngram-ban", "--json")
    verdict = json.loads(ran.out)
    assert ran.code == 1 and verdict["mistake"] == "last-window-lost" and "np.array" in verdict["input"]
    solve(find("15"), file.parent, 5)
    ran = cli("exercise", "check", "15")
    assert ran.code == 0 and ran.out.startswith("Solved")
    states = {r["number"]: r["state"] for r in json.loads(cli("exercise", "list", "--json").out)}
    assert states[15] == "solved" and states[16] == "" and set(states) == set(exercises())


def test_a_folder_for_reading_alone(cli, here):
    """What was judged is told, though it cannot be noted; the hints that were taken cannot, and all can be seen."""
    folder = solve(find("guard"), here / "my_exercises", 0).parent
    (folder / "10_tile_race.py").write_text(find("10").start(0), encoding="utf-8")
    (folder / ".minidecode").write_text("a file, where a folder would be made")
    ran = cli("exercise", "check", "1")
    assert ran.code == 0 and ran.out.startswith("Solved") and "nothing of this is kept" in ran.out and ran.err == ""
    ran = cli("exercise", "check", "10")
    assert ran.code == 1 and "nothing of this is kept" in ran.out and "A picture" not in ran.out
    ran = cli("exercise", "hint", "1")
    assert ran.code == 1 and "cannot be written" in ran.err and "hint 1 --all" in ran.err
    assert cli("exercise", "hint", "1", "--all").out.count("Hint ") == 3


def test_a_file_that_is_not_utf8(cli, here):
    """An editor's comment in another encoding: the line is told, and hint and reset go on, in the same variation."""
    cli("exercise", "start", "4", "--seed", "5")
    file = here / "my_exercises" / "04_append.py"
    file.write_bytes(b"# one\n" + "# zwei: Schlüssel\n".encode("latin-1") + file.read_bytes())
    told = "04_append.py, line 2 is not UTF-8: byte 0xfc; save it as UTF-8"
    ran = cli("exercise", "check", "4")
    assert (ran.code, ran.out, ran.err) == (1, "", f"minidecode: {told}\n")
    assert told in cli("exercise", "grade", ".", "--format", "csv", "-q").out
    assert cli("exercise", "hint", "4").out.startswith("Hint 1 of 3")
    assert cli("exercise", "reset", "4").code == 0 and file.read_text(encoding="utf-8") == find("4").start(5)


def test_a_picture_is_written_where_one_helps(cli, here):
    cli("exercise", "start", "10")
    ran = cli("exercise", "check", "my_exercises/10_tile_race.py")
    assert ran.code == 1 and "A picture:" in ran.out
    picture = Path(ran.out.split("A picture: ")[1].strip())
    assert ": a race" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize(("exercise", "wrong"), [("1", "less_or_equal"), ("12", "no_barrier")])
def test_a_picture_shows_the_access_that_failed(cli, here, exercise, wrong):
    """An index outside its array, and a read of what nothing has written."""
    solve(find(exercise), here, 0, wrong)
    ran = cli("exercise", "check", find(exercise).file_name)
    assert ran.code == 1 and "A picture:" in ran.out
    picture = (here / ".minidecode" / f"{int(exercise):02d}.svg").read_text(encoding="utf-8")
    (asked,) = re.findall(r"<title>(\w+)\[([-0-9, ]+)\]: asked for</title>", picture)
    assert f"{asked[0]}[{asked[1]}] " in ran.out, "the element that is told is the one in red"


def test_no_picture_where_no_access_failed(cli, here):
    """Threads that do not come to a barrier."""
    solve(find("8"), here, 0, "barrier_inside_if")
    ran = cli("exercise", "check", find("8").file_name)
    assert ran.code == 1 and "A picture" not in ran.out


def test_a_file_that_was_changed_is_solved_no_more(cli, here):
    """Its hash is noted; the same file again is solved again."""

    def state():
        return next(e["state"] for e in json.loads(cli("exercise", "list", "--json").out) if e["number"] == 15)

    cli("exercise", "start", "15")
    file = here / "my_exercises" / "15_ngram_ban.py"
    skeleton, solution = file.read_text(), cli("exercise", "solution", "15").out
    file.write_text(solution)
    assert cli("exercise", "check", "15").code == 0 and state() == "solved"
    for changed in (skeleton, f"{solution}\n# more\n"):
        file.write_text(changed)
        assert state() == "changed since solved"
    file.write_text(solution)
    assert state() == "solved"


def test_an_exercise_that_was_solved_in_another_file_is_solved(cli, here):
    """The skeleton in the folder was not changed since."""
    cli("exercise", "start", "15")
    (here / "15_ngram_ban.py").write_text(cli("exercise", "solution", "15").out)
    assert cli("exercise", "check", "15_ngram_ban.py", "--folder", "my_exercises").code == 0
    assert next(e["state"] for e in json.loads(cli("exercise", "list", "--json").out) if e["number"] == 15) == "solved"


def test_hints_come_one_by_one(cli, here):
    hints = [cli("exercise", "hint", "11").out for _ in range(3)]
    assert [h.splitlines()[0] for h in hints] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3, the last one"]
    ran = cli("exercise", "hint", "11")
    assert ran.code == 1 and ran.out == ""
    assert ran.err == "minidecode: all 3 hints were taken: minidecode exercise hint 11 --all shows them again\n"
    assert cli("exercise", "hint", "11", "--all").out == "".join(hints)


def test_reset_keeps_what_was_there(cli, here):
    cli("exercise", "start", "16", "--student", "Ada")
    file = here / "my_exercises" / "16_ngram_kernel.py"
    skeleton_of_it = file.read_text(encoding="utf-8")
    assert skeleton.seed_in_source(skeleton_of_it, 16) == seed_from_name("Ada")
    file.write_text(skeleton_of_it + "# mine\n", encoding="utf-8")
    assert cli("exercise", "reset", "16").code == 0
    assert file.read_text(encoding="utf-8") == skeleton_of_it
    assert file.with_suffix(".py.bak").read_text(encoding="utf-8").endswith("# mine\n")


def test_a_solution_is_printed_in_the_students_variation(cli, here):
    cli("exercise", "start", "15", "--seed", 8)
    assert cli("exercise", "solution", "15").out == find("15").vary_source(find("15").folder() / "solution.py", 8)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("start", "99"), "there is no exercise"), (("start", "ngram_bann"), "did you mean ngram_ban"),
     (("check", "15"), "there is no file"), (("check", "2", "--target", "a:b"), "takes no --target"),
     (("check", "15", "--target", "no.such:ban"), "there is no module no.such"), (("reset", "15"), "there is no"),
     (("start", "1", "--seed", "1", "--student", "x"), "not from both"), (("grade", "nowhere"), "is no folder: name a"),
     (("grade", "."), "holds no file of an exercise"),
     (("reset", "15", "--fresh", "--seed", "3"), "say one of them")],
)  # fmt: skip
def test_mistakes_of_use_are_one_line(cli, here, arguments, says):
    ran = cli("exercise", *arguments)
    assert ran.code == 1 and says in ran.err and ran.err.splitlines()[-1].startswith("minidecode: ")


@pytest.mark.parametrize(("part", "number"), [("find-the", 9), ("HARS", 27), ("stale", 7), ("arrow", None)])
def test_a_part_of_a_name_is_enough(cli, here, part, number):
    ran = cli("exercise", "solution", part)
    if number is None:
        assert ran.code == 1 and "there is no exercise 'arrow'" in ran.err
    else:
        assert ran.code == 0 and ran.out == cli("exercise", "solution", number).out


def test_a_part_of_several_names_is_an_error_that_names_them(cli, here):
    ran = cli("exercise", "solution", "race")
    assert ran.code == 1 and "9 (find_the_race) and 10 (tile_race) all have 'race' in their names" in ran.err


def test_a_file_needs_the_whole_name(cli, here):
    assert "there is no exercise 'hars_mine.py'" in cli("exercise", "check", "hars_mine.py").err
    assert "there is no exercise 'stale.py'" in cli("exercise", "check", "stale.py").err


@pytest.mark.parametrize("command", ["list", "hint", "check", "solution", "reset", "start"])
def test_a_folder_that_is_none_is_told_in_one_line(cli, here, command):
    (here / "notes.txt").write_text("mine", encoding="utf-8")
    number = () if command == "list" else ("15",)
    ran = cli("exercise", command, *number, "--folder", "notes.txt")
    assert ran.code == 1 and ran.out == "" and ran.err.count("\n") == 1
    assert "notes.txt is a file: --folder takes the folder that you work in" in ran.err
    if command != "start":
        ran = cli("exercise", command, *number, "--folder", "nowhere")
        assert ran.code == 1 and ran.out == "" and ran.err.count("\n") == 1
        assert "there is no folder nowhere: minidecode exercise start NUMBER --folder nowhere makes it" in ran.err
        assert not (here / "nowhere").exists()


def test_where_the_exercises_lie_is_told(cli, here, monkeypatch):
    assert "No exercise is started in my_exercises: minidecode exercise start 1" in cli("exercise", "list").err
    (here / "other").mkdir()
    ran = cli("exercise", "check", "15", "--folder", "other")
    assert ran.code == 1 and "minidecode exercise start 15 --folder other writes it" in ran.err
    assert cli("exercise", "start", "15").code == 0 and "is started" not in cli("exercise", "list").err
    shutil.copy(here / "my_exercises" / "15_ngram_ban.py", here / "other")
    monkeypatch.chdir(here / "other")
    for command in ("check", "reset"):
        ran = cli("exercise", command, "15")
        assert ran.code == 1 and "but 15_ngram_ban.py lies here: add --folder ." in ran.err
    assert "this folder has some: --folder ." in cli("exercise", "list").err


@pytest.mark.parametrize("word", ["0", "36", "1.5", "1e1", "15x", "999999999999", "", ".", "-- -1", "\u0663"])
def test_what_is_no_exercise_is_told(cli, here, word):
    ran = cli("exercise", "check", *(word.split() or [""]))
    assert ran.code == 1 and ran.err.count("\n") == 1 and "they have the numbers 1 to 35, and names" in ran.err


def test_a_number_below_zero_is_no_option_of_an_exercise(cli, here):
    for command in ("start", "check", "hint"):
        ran = cli("exercise", command, "-1")
        assert ran.code == 2 and "an exercise is one of the numbers or names" in ran.err and "prompt" not in ran.err


@pytest.mark.skipif(sys.platform == "win32", reason="its shells quote otherwise")
@pytest.mark.parametrize("folder", ["my work", "it's", "a&b", "plain"])
def test_commands_that_are_told_can_be_pasted(cli, here, folder):
    """What stands behind `minidecode` there is split by a shell's rules, and run."""

    def told(err: str, begins: str, ends: str = "\n") -> list[str]:
        return shlex.split(err[err.index(begins) :].partition(ends)[0])[1:]

    missing = cli("exercise", "check", "15", "--folder", folder).err
    start = [word.replace("NUMBER", "15") for word in told(missing, "minidecode exercise start", " makes it")]
    assert start == ["exercise", "start", "15", "--folder", folder]
    started = cli(*start)
    assert started.code == 0 and Path(started.out.strip()) == Path(folder, "15_ngram_ban.py")
    check = told(started.err, "minidecode exercise check")
    assert check == ["exercise", "check", str(Path(folder, "15_ngram_ban.py"))] and cli(*check).code == 1
    again = cli(*start)
    assert told(again.err, "minidecode exercise reset", " starts it anew")[2:] == ["15", "--folder", folder]
    other = cli(*check, "--seed", "5")
    assert told(other.err, "minidecode exercise reset", " with the same")[2:] == ["15", "--folder", folder]
    (here / folder / "15_ngram_ban.py").unlink()
    gone = cli("exercise", "check", "15", "--folder", folder)
    assert told(gone.err, "minidecode exercise start", " writes it")[2:] == ["15", "--folder", folder]


def test_starting_twice_writes_over_nothing(cli, here):
    cli("exercise", "start", "15")
    assert "is there already" in cli("exercise", "start", "15").err


# A layout of one's own


def test_a_layout_of_ones_own_is_checked_where_it_lies(cli, here):
    package = here / "src" / "mine" / "kernels"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("", encoding="utf-8")
    source = find("15").vary_source(find("15").folder() / "another.py", 0).replace("def ban(", "def my_ban(")
    helper = "import numpy as np\n\n\ndef empty(rows, V):\n    return np.zeros((rows, V), bool)\n"
    (package / "helper.py").write_text(helper, encoding="utf-8")
    source = source.replace("import numpy as np", "from .helper import empty")
    source = source.replace("np.zeros((len(tokens_RM), V), bool)", "empty(len(tokens_RM), V)")
    source = re.sub(r"# --- variation.*", "# mine", source, count=1)
    (package / "bans.py").write_text(source, encoding="utf-8")
    ran = cli("exercise", "check", "15", "--target", "mine.kernels.bans:my_ban", "--seed", 0)
    assert ran.code == 0, ran
    ran = cli("exercise", "check", "15", "--target", "src/mine/kernels/bans.py:no_such", "--seed", 0)
    assert ran.code == 1


# Predictions


def test_a_prediction_is_sealed_before_it_is_answered(cli, here):
    cli("exercise", "start", "2", "--seed", 6)
    file = here / "my_exercises" / "02_bytes_per_token.py"
    before = file.read_text(encoding="utf-8")
    assert "None yet" not in before and cli("exercise", "check", "2").code == 1
    log = here / "my_exercises" / ".minidecode" / "predictions.json"
    assert not log.exists(), "nothing was predicted, so nothing is sealed and nothing told"
    file.write_text(before.replace("= None", "= 1000"), encoding="utf-8")
    ran = cli("exercise", "check", "2")
    assert ran.code == 1 and "you said 1,000" in ran.out
    (entry,) = json.loads(log.read_text(encoding="utf-8"))["sealed"]
    assert entry["seed"] == 6 and entry["values"] == {"BYTES_PER_TOKEN": 1000}
    fresh = file.read_text(encoding="utf-8")
    assert skeleton.seed_in_source(fresh, 2) not in (None, 6) and "= 1000" in fresh, (
        "another model, and the student's own lines"
    )
    constants = dict(re.findall(r"^(WIDTH|POSITIONS) = (\d+)$", fresh, re.MULTILINE))
    assert f"width         {constants['WIDTH']}\n" in fresh and f"{constants['POSITIONS']} are in" in fresh
    file.write_text(before.replace("= None", "= 2000"), encoding="utf-8")
    again = cli("exercise", "check", "2")
    assert again.code == 1 and "has been told" in again.err and "it is" not in again.out


def sealed(folder: Path) -> list[dict]:
    return json.loads((folder / ".minidecode" / "predictions.json").read_text(encoding="utf-8"))["sealed"]


def test_after_a_miss_one_may_predict_again(cli, tmp_path):
    """A number was about the variation that is over: it is no prediction of the next one, and is not lost."""
    file = tmp_path / find("2").file_name
    cli("exercise", "start", 2, "--folder", tmp_path, "--seed", 6)
    seeds = [6]
    for number, said in enumerate(("1_000", "12 * 7**2", "-(-3)"), 1):
        file.write_text(file.read_text(encoding="utf-8").replace("= None", f"= {said}  # a guess"), encoding="utf-8")
        ran = cli("exercise", "check", file)
        assert ran.code == 1 and "Your prediction is kept there as a comment." in ran.out
        now = file.read_text(encoding="utf-8")
        assert f"# variation {seeds[-1]}: BYTES_PER_TOKEN = {said}\nBYTES_PER_TOKEN = None  # a guess" in now
        seeds.append(skeleton.seed_in_source(now, 2))
        again = cli("exercise", "check", file)
        assert again.code == 1 and "Nothing is predicted yet" in again.out, "the old number is not judged again"
        assert [entry["seed"] for entry in sealed(tmp_path)] == seeds[:number], "and what was said is history"
    assert now.count("# variation ") == 3 and "= 1_000" in now, "earlier ones stay as well"
    right = find("2").task.expected_outputs(find("2").task.draw_variation(seeds[-1]))["BYTES_PER_TOKEN"]
    file.write_text(now.replace("= None", f"= {right}"), encoding="utf-8")
    assert cli("exercise", "check", file).code == 0 and len(sealed(tmp_path)) == 4


def test_an_expression_stays_after_a_miss(cli, tmp_path):
    file = solve(find("2"), tmp_path, 6)
    mine = file.read_text(encoding="utf-8").replace("VOCABULARY * WIDTH + ", "")
    file.write_text(mine, encoding="utf-8")
    ran = cli("exercise", "check", file)
    assert ran.code == 1 and "as a comment" not in ran.out
    assert "BYTES_PER_TOKEN = (WEIGHTS + CACHE) * BYTES_PER_NUMBER" in file.read_text(encoding="utf-8")


def test_an_editor_that_writes_the_old_variation_back_is_no_dead_end(cli, tmp_path):
    """It had the file open: what is told already gets the next variation, of which nothing has been told."""
    file = tmp_path / find("2").file_name
    cli("exercise", "start", 2, "--folder", tmp_path, "--student", "ada")
    old = file.read_text(encoding="utf-8").replace("= None", "= 1000")
    file.write_text(old, encoding="utf-8")
    assert cli("exercise", "check", file, "--student", "ada").code == 1
    once = skeleton.seed_in_source(file.read_text(encoding="utf-8"), 2)
    assert "Nothing is predicted yet" in cli("exercise", "check", file, "--student", "ada").out, "ada's, after a miss"
    file.write_text(file.read_text(encoding="utf-8").replace("= None", "= 1000"), encoding="utf-8")
    assert cli("exercise", "check", file).code == 1
    twice = skeleton.seed_in_source(file.read_text(encoding="utf-8"), 2)
    file.write_text(old.replace("= 1000", "= 2000"), encoding="utf-8")
    ran = cli("exercise", "check", file)
    assert ran.code == 1 and "has been told: predict the new one" in ran.err and "it is" not in ran.out + ran.err
    now = file.read_text(encoding="utf-8")
    assert (
        skeleton.seed_in_source(now, 2) == twice not in (once, seed_from_name("ada"))
        and "BYTES_PER_TOKEN = None" in now
    )
    assert len(sealed(tmp_path)) == 2, "nothing was sealed in the place of what was"


# An untouched skeleton


@pytest.mark.parametrize(
    ("number", "says"),
    [(15, "(line 30: your turn: "), (16, "still raises NotImplementedError"),
     (10, "It does this:\n"), (11, "sectors; "), (2, "BYTES_PER_TOKEN is None"), (20, "It does this:\n")],
)  # fmt: skip
def test_an_untouched_skeleton_is_not_begun(cli, here, number, says):
    """In check, list and grade, of each kind; what a program to be mended does is told all the same."""
    exercise, folder = find(str(number)), here / "class" / "ada"
    cli("exercise", "start", number, "--folder", folder, "--seed", 3)
    file = folder / exercise.file_name

    def states() -> tuple[str, str, str]:
        checked = json.loads(cli("exercise", "check", file, "--json").out)
        listed = {r["number"]: r["state"] for r in json.loads(cli("exercise", "list", "-f", folder, "--json").out)}
        graded = json.loads(cli("exercise", "grade", "class", "--hidden", 1, "--format", "json", "-q").out)
        assert ("1 of 1: not begun" in graded["class"][0]) == (graded["graded"][0]["result"] == "not-begun")
        return checked["mistake"], listed[number], graded["graded"][0]["result"]

    assert states() == ("not-begun", "not begun", "not-begun")
    told = cli("exercise", "check", file)
    assert told.code == 1 and told.out.startswith("Not begun: this is the file as it was started") and says in told.out
    file.write_text(file.read_text(encoding="utf-8") + "\nMINE = 1\n", encoding="utf-8")
    checked, listed, graded = states()
    assert "not-begun" not in (checked, graded) and listed == "started"


def test_half_a_score_within_a_factor_of_two():
    exercise = find("2")
    right = exercise.task.expected_outputs(exercise.task.draw_variation(1))["BYTES_PER_TOKEN"]
    from minidecode.course.exercises.exercise import Submission

    for value, score in ((right, 1.0), (right * 1.09, 1.0), (right / 1.5, 0.5), (right * 2.2, 0.0)):
        source = exercise.start(1).replace("= None", f"= {value!r}")
        assert exercise.task.check(Submission(Path("p.py"), source), 1).score == score


# Grading


@pytest.fixture
def classroom(tmp_path):
    """Three students, of whom one has handed in nothing for exercise 16."""
    answers = {"ada": ("solution", "solution"), "ben": ("bans_first_token", "one_block"), "cyn": ("unknown",)}
    for student, names in answers.items():
        for number, name in zip(("15", "16"), names, strict=False):
            file = solve(find(number), tmp_path / "class" / student, seed_from_name(student), name)
            if name == "solution":
                file.write_text(in_own_words(file.read_text(encoding="utf-8")), encoding="utf-8")
    return tmp_path / "class"


def in_own_words(source: str) -> str:
    """A solution of exercise 15 or 16 as a student may write it, who has seen none."""
    source, times = re.subn(
        r"( +)(banned_RV\[r, (.*)\] = (1|True))\n", r"\1found = \3\n\1banned_RV[r, found] = \4\n", source
    )
    assert times == 1
    return source


def test_a_class_is_graded(cli, classroom):
    ran = cli("exercise", "grade", classroom, "--per-student", "--hidden", 9)
    rows = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines()[1:4]}
    assert ran.code == 0
    assert rows == {"ada": ["solved", "solved"], "ben": ["bans-first-token", "one-block"], "cyn": ["wrong", "absent"]}
    assert "15 the n-gram ban: 1 of 3 solved; 1 of 3: bans first token; 1 of 3: wrong in a way" in ran.out
    assert "16 the n-gram ban as a kernel: 1 of 3 solved; 1 of 3: one block; 1 of 3: nothing handed in" in ran.out
    for word in ("time: ", "memory: ", "files: ", "processes, signals and network: "):
        assert word in ran.err, "it says what this system enforces"
    assert (ran.out + ran.err).count("hidden inputs: ") == 1, "the seed, once"


def test_a_prediction_whose_answer_was_told_is_graded_by_the_one_that_check_drew(cli, here):
    """A wrong prediction gets another variation: that is due then, and no mark of the other exercises' kind."""
    file = here / "class" / "ada" / find("2").file_name
    cli("exercise", "start", "2", "--student", "ada", "--folder", file.parent)
    file.write_text(file.read_text(encoding="utf-8").replace("= None", "= 12345"), encoding="utf-8")
    assert cli("exercise", "check", file).code == 1
    fresh = skeleton.seed_in_source(file.read_text(encoding="utf-8"), 2)
    solve(find("2"), file.parent, fresh)
    assert "1 of 1 solved" in cli("exercise", "grade", "class", "--per-student", "--hidden", 3).out
    solve(find("2"), file.parent, 5)  # of no chain that begins with ada
    assert "of another student" in cli("exercise", "grade", "class", "--per-student", "--hidden", 3).out
    solve(find("15"), file.parent, find("15").next_seed(seed_from_name("ada")))  # nothing was told of that one
    assert "15 the n-gram ban: 0 of 1 solved" in cli("exercise", "grade", "class", "--per-student", "--hidden", 3).out


def test_a_file_drawn_for_another_student_is_called_so(cli, here):
    """By name, where that student is in the class."""
    for student in ("ada", "ben"):
        solve(find("15"), here / "class" / student, seed_from_name("ben"))
    found = json.loads(cli("exercise", "grade", "class", "--per-student", "--hidden", 3, "--format", "json").out)
    ada, ben = ({"result": g["result"], "message": g["verdict"]["message"]} for g in found["graded"])
    his, hers = seed_from_name("ben"), seed_from_name("ada")
    says = f"This is a file drawn for another student, ben (variation {his}, and {hers} is due)."
    assert ada == {"result": "of-another-student", "message": says}, found
    assert ben["result"] == "published-solution", "his own variation, and what it holds is judged"
    alone = "exercise", "grade", "class/ada", "--student", "ada", "--hidden", 3, "--format", "json"
    (one,) = json.loads(cli(*alone).out)["graded"]
    assert one["verdict"]["message"].startswith("This is a file drawn for another student (variation ")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
def test_names_write_no_rows_of_their_own(cli, here):
    """Folders and files are named by whoever hands them in."""
    solve(find("15"), here / "class" / "ada", 3)
    for name in ("eve\neva  solved", "bob"):
        (here / "class" / name).mkdir()
    (here / "class" / "bob" / "x\n15 the n-gram ban: 3 of 3 solved\x1b[2J.py").write_text("", encoding="utf-8")
    table = cli("exercise", "grade", "class", "--hidden", 3).out
    assert [line.split()[0] for line in table.splitlines()[1:4]] == ["ada", "bob", "eve?eva"]
    assert "\n15 the n-gram ban: 3 of 3" not in table and "\x1b" not in table


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_a_link_is_no_submission_and_said_to_be_one(cli, here):
    own = solve(find("15"), here / "class" / "ada", 3)
    (here / "class" / "eve").mkdir()
    (here / "class" / "eve" / own.name).symlink_to(own)
    (eve,) = (r for r in csv.DictReader(io.StringIO(cli("exercise", "grade", "class", "--format", "csv").out))
              if r["student"] == "eve")  # fmt: skip
    assert eve["solved"] == "0" and "is a link" in eve["message"]


def links_of_a_class(cli, *arguments) -> dict[str, dict]:
    """student -> row, of exercise 15."""
    ran = cli("exercise", "grade", *arguments, "-e", "15", "--hidden", 4, "--format", "csv")
    assert ran.code == 0, ran.err
    return {row["student"]: row for row in csv.DictReader(io.StringIO(ran.out))}


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
@pytest.mark.parametrize("name", ["aaa", "zzz"])
def test_a_link_to_a_neighbours_folder_takes_no_row_and_gives_none(cli, here, name):
    """Whichever comes first by its name, and wherever it leads to."""
    solve(find("15"), here / "class" / "cyn", 3, "bans_first_token")
    solve(find("15"), here / "other" / "dan", 3, "bans_first_token")
    (here / "class" / name).symlink_to("cyn", target_is_directory=True)
    (here / "class" / "bob").symlink_to(here / "other" / "dan", target_is_directory=True)
    rows = links_of_a_class(cli, "class")
    assert set(rows) == {"cyn", "bob", name} and rows["cyn"]["result"] == "bans-first-token"
    for student in ("bob", name):
        assert rows[student]["result"] == "cannot-run"
        assert rows[student]["message"] == f"{student} is a link to a folder: hand in the folder itself."


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_who_grades_may_name_folders_by_links(cli, here):
    """A link to the class, a link to a student's folder under another name, and one beside the folder itself."""
    solve(find("15"), here / "class" / "cyn", seed_from_name("cyn"), "bans_first_token")
    solve(find("15"), here / "1234", seed_from_name("ada"), "pads_count")
    (here / "classes").symlink_to("class", target_is_directory=True)
    (here / "ada").symlink_to("1234", target_is_directory=True)
    (here / "cyn").symlink_to("class/cyn", target_is_directory=True)
    results = {s: r["result"] for s, r in links_of_a_class(cli, "classes", "ada", "--per-student").items()}
    assert results == {"cyn": "bans-first-token", "ada": "pads-count"}
    assert {s: r["result"] for s, r in links_of_a_class(cli, "ada").items()} == {"ada": "pads-count"}
    assert list(links_of_a_class(cli, "class", "cyn")) == ["cyn"], "given twice, it counts once"


def test_tables_for_machines(cli, classroom):
    ran = cli("exercise", "grade", *sorted(classroom.iterdir()), "-e", "15", "--format", "csv", "--quiet")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [(r["student"], r["result"], r["solved"]) for r in rows] == [
        ("ada", "solved", "1"), ("ben", "bans-first-token", "0"), ("cyn", "wrong", "0")]  # fmt: skip
    assert ran.err == ""
    ran = cli("exercise", "grade", classroom, "-e", "15", "--format", "json", "--seed", 12345)
    found = json.loads(ran.out)
    assert {g["result"] for g in found["graded"]} == {"other-variation"}, (
        "the variation that is due, not the one that suits"
    )
    assert found["limits"] and isinstance(found["hidden"], int)


def test_what_is_given_twice_counts_once_and_is_told(cli, classroom, monkeypatch):
    ran = cli("exercise", "grade", classroom, classroom / "ben", classroom / "." / "ada", "-e", "15", "-e", "ngram_ban",
              "--hidden", 9)  # fmt: skip
    assert ran.code == 0 and "15 the n-gram ban: 1 of 3 solved" in ran.out
    told = ran.err.splitlines()
    assert [line.split(" was given twice")[0][-3:] for line in told if "it counts once" in line] == ["ben", "ada"]
    monkeypatch.chdir(classroom / "ada")
    (row,) = csv.DictReader(
        io.StringIO(cli("exercise", "grade", ".", "-e", "15", "--per-student", "--format", "csv").out)
    )
    assert (row["student"], row["result"]) == ("ada", "solved"), "a folder has its name where it is given as ."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("nowhere",), "nowhere is no folder"), ((".", "nowhere"), "nowhere is no folder"),
     ((".",), "holds no file of an exercise"),
     (("CLASS", "-e", "77"), "there is no exercise '77'"), (("CLASS", "--format", "pdf"), "--format is table, csv"),
     (("CLASS", "--seed", "1", "--per-student"), "not from both")],
)  # fmt: skip
def test_limits_are_told_of_nothing_that_is_not_graded(cli, classroom, monkeypatch, tmp_path, arguments, says):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    ran = cli("exercise", "grade", *(classroom if a == "CLASS" else a for a in arguments))
    assert ran.code == 1 and ran.out == "" and says in ran.err and ran.err.count("\n") == 1


def test_nobody_is_left_out_of_a_class(cli, classroom):
    """Who misnamed a file, or handed in nothing, has a row; the seed of hidden inputs is told, whoever reads it."""
    (classroom / "dan").mkdir()
    (classroom / "dan" / "my15.py").write_text("x = 1\n")
    (classroom / "eve").mkdir()
    ran = cli("exercise", "grade", classroom, "-e", "15", "--format", "csv", "--quiet")
    rows = {r["student"]: r for r in csv.DictReader(io.StringIO(ran.out))}
    assert set(rows) == {"ada", "ben", "cyn", "dan", "eve"} and ran.err == ""
    assert rows["dan"]["result"] == "absent" and "my15.py is no file of an exercise" in rows["dan"]["message"]
    assert len({r["hidden"] for r in rows.values()}) == 1 and rows["ada"]["hidden"].isdigit()
    ran = cli("exercise", "grade", classroom, "-e", "15", "--quiet", "--hidden", 77)
    assert "dan: my15.py is no file of an exercise; 15_ngram_ban.py would be." in ran.out
    assert ran.out.splitlines()[-1] == "hidden inputs: 77"
    ran = cli("exercise", "grade", *sorted(classroom.iterdir()), "-e", "15", "--format", "json", "-q")
    found = {g["student"]: g for g in json.loads(ran.out)["graded"]}
    assert [found[s]["score"] for s in ("ada", "ben", "eve")] == [1.0, 0.0, 0.0]
    assert found["ada"]["verdict"]["score"] == 1.0, "the same score, whatever the format"


def test_a_folder_that_is_a_class_and_a_student_is_refused(cli, classroom):
    """One stray file made one student of the whole class."""
    (classroom / "15_ngram_ban.py").write_text("x = 1\n")
    ran = cli("exercise", "grade", classroom)
    assert (
        ran.code != 0 and "holds 15_ngram_ban.py and also folders" in ran.err and "move one of the two away" in ran.err
    )


def test_what_a_spreadsheet_would_compute_stays_a_text():
    from minidecode.course.exercises.grade import _text_without_formula

    assert (
        _text_without_formula("=1+1") == "'=1+1"
        and _text_without_formula("ada") == "ada"
        and _text_without_formula(1) == 1
    )


# The wheel


def test_the_wheel_holds_skeletons_and_no_solution(tmp_path):
    pytest.importorskip("hatchling", reason="the builder of the wheel is not installed")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, check=True,
                   capture_output=True)  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for exercise in exercises().values():
            made = archive.read(f"minidecode/course/exercises/skeletons/{exercise.file_name}").decode()
            assert made.replace("\r\n", "\n") == exercise.template()
            assert f"minidecode/course/exercises/tasks/e{exercise.number:02d}_{exercise.name}.md" in names
        assert json.loads(archive.read("minidecode/course/exercises/skeletons/published.json")) == {
            Path(e.file_name).stem: [json.loads(json.dumps(asdict(s))) for s in e.published_solutions()]
            for e in exercises().values()
        }
    assert not [n for n in names if "solution" in n or "another.py" in n or "/wrong/" in n]


def test_an_installed_package_starts_from_its_skeletons(tmp_path, monkeypatch):
    exercise = find("15")
    due = exercise.start(3)
    from minidecode.course.exercises import find as module

    (tmp_path / "skeletons").mkdir()
    (tmp_path / "skeletons" / exercise.file_name).write_text(exercise.template(), encoding="utf-8")
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(skeleton, "CHECKOUT", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert exercise.folder() is None and exercise.start(3) == due


def test_no_reset_loses_what_an_earlier_one_kept(cli, tmp_path):
    assert cli("exercise", "start", 15, "--folder", tmp_path).code == 0
    file = tmp_path / "15_ngram_ban.py"
    file.write_text(mine := file.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    for _ in range(2):
        assert cli("exercise", "reset", 15, "--folder", tmp_path).code == 0
    assert [path.name for path in sorted(tmp_path.glob("*.bak*"))] == ["15_ngram_ban.py.bak", "15_ngram_ban.py.bak1"]
    assert (tmp_path / "15_ngram_ban.py.bak").read_text(encoding="utf-8") == mine


def test_another_students_variation_is_told_and_can_be_had(cli, tmp_path):
    cli("exercise", "start", 15, "--folder", tmp_path)
    ran = cli("exercise", "check", 15, "--folder", tmp_path, "--student", "ada")
    assert ran.code == 1 and "holds variation 0" in ran.err and "reset 15" in ran.err
    assert cli("exercise", "reset", 15, "--folder", tmp_path, "--student", "ada").code == 0
    assert "Not begun" in cli("exercise", "check", 15, "--folder", tmp_path, "--student", "ada").out


@pytest.mark.parametrize(
    ("number", "value", "says"),
    [(2, "'many'", "'many', where a number is due"), (2, "-5", "'-5', where a number above 0 is due"),
     (2, "0", "'0', where a number above 0 is due"), (2, "True", "where a number is due"),
     (2, "float('nan')", "a number above 0 is due"), (2, "float('inf')", "a number above 0 is due"),
     (9, "12", "WITHIN is '12', where 2 integers in brackets are due, or ()"),
     (9, "(1, 2, 3)", "WITHIN is '(1, 2, 3)', where 2 integers"), (9, "(1,)", "where 2 integers"),
     (9, "(1.5, 2)", "where 2 integers"), (9, "'ab'", "where 2 integers")],
)  # fmt: skip
def test_what_can_be_no_prediction_costs_no_variation(cli, tmp_path, number, value, says):
    cli("exercise", "start", number, "--folder", tmp_path)
    file = tmp_path / find(str(number)).file_name
    file.write_text(file.read_text(encoding="utf-8").replace("= None", f"= {value}"), encoding="utf-8")
    ran = cli("exercise", "check", number, "--folder", tmp_path)
    assert ran.code == 1 and says in ran.out and "it is" not in ran.out
    assert not (tmp_path / ".minidecode" / "predictions.json").exists()


@pytest.mark.parametrize(
    ("number", "line", "other", "says"),
    [(15, "PADDING = \"left\"", "PADDING = 'right'", "Line 21 says PADDING = 'right', but your variation has"),
     (16, "THREADS = 32", "THREADS = 16 + 16", "says THREADS = 16 + 16, but your variation has THREADS = 32"),
     (2, "POSITIONS = ", "POSITIONS = 1", "says POSITIONS = 1")],
)  # fmt: skip
def test_a_changed_constant_of_the_variation_is_told(cli, tmp_path, number, line, other, says):
    exercise = find(str(number))
    seed = next(seed for seed in range(50) if line in exercise.start(seed))
    assert cli("exercise", "start", number, "--folder", tmp_path, "--seed", seed).code == 0
    assert "your variation has" not in cli("exercise", "check", number, "--folder", tmp_path).out
    file = tmp_path / exercise.file_name
    file.write_text(file.read_text(encoding="utf-8").replace(line, other), encoding="utf-8")
    ran = cli("exercise", "check", number, "--folder", tmp_path)
    (told,) = [line for line in ran.out.splitlines() if "your variation has" in line]
    assert ran.code == 1 and says in told and told.endswith("that is what is judged: put it back.")


def test_a_file_that_does_not_say_its_variation_is_told(cli, tmp_path):
    file = solve(find("15"), tmp_path, 0)
    file.write_text(re.sub(r"# --- variation.*", "# mine", file.read_text(encoding="utf-8")), encoding="utf-8")
    ran = cli("exercise", "check", file)
    assert ran.code == 0 and "does not say its variation" in ran.out and "judged was 0." in ran.out
    graded = cli("exercise", "grade", tmp_path, "--seed", 5, "--format", "csv")
    assert "The file does not say its variation, and 5 is due." in graded.out


@pytest.mark.parametrize("number", [2, 9])
def test_a_solved_prediction_stays_solved(cli, tmp_path, number):
    exercise = find(str(number))
    file = solve(exercise, tmp_path, 3)
    assert cli("exercise", "check", number, "--folder", tmp_path).code == 0
    again = cli("exercise", "check", number, "--folder", tmp_path)
    assert again.code == 0 and again.out.startswith("Solved already. ")
    file.write_text(exercise.vary_source(exercise.folder() / "wrong" / "unknown.py", 3), encoding="utf-8")
    other = cli("exercise", "check", number, "--folder", tmp_path)
    assert other.code == 0 and other.out == again.out, "what was sealed counts, and it was right"
    assert cli("exercise", "check", number, "--folder", tmp_path, "--json").code == 0


def test_inside_the_folder_nothing_is_nested(cli, here, monkeypatch):
    cli("exercise", "start", "15")
    monkeypatch.chdir(here / "my_exercises")
    ran = cli("exercise", "start", "1")
    assert ran.code == 0 and Path(ran.out.strip()) == Path(find("1").file_name)
    assert "then: minidecode exercise check 1\n" in ran.err
    assert sorted(p.name for p in Path().glob("*.py")) == sorted([find("1").file_name, find("15").file_name])
    assert not Path("my_exercises").exists()
    solve(find("15"), Path(), 0)
    assert cli("exercise", "check", "15").code == 0


def test_check_without_a_number_checks_all_that_was_begun(cli, here):
    assert " has an answer to check: " in cli("exercise", "check").err
    cli("exercise", "start", "1")
    assert " has an answer to check (1 as started, 0 predictions): " in cli("exercise", "check").err
    numpy = [e for e in exercises().values() if e.text.kind == "N"][:2]
    guess = next(e for e in exercises().values() if e.text.kind == "P")
    solve(numpy[0], here / "my_exercises", 0)
    solve(guess, here / "my_exercises", 0)
    ran = cli("exercise", "check")
    assert ran.code == 0 and ran.out == f"{numpy[0].number:>2}  {numpy[0].text.title}: solved\n"
    assert ran.err.endswith("1 of 1 are solved\n") and f"by their number: {guess.number}" in ran.err
    wrong = next((numpy[1].folder() / "wrong").glob("*.py"))
    solve(numpy[1], here / "my_exercises", 0, wrong.stem)
    ran = cli("exercise", "check")
    assert ran.code == 1 and ran.out.count("\n") == 2 and "1 of 2 are solved" in ran.err
    records = json.loads(cli("exercise", "check", "--json").out)
    assert [(r["exercise"], r["ok"]) for r in records] == [(numpy[0].number, True), (numpy[1].number, False)]
    assert "--seed and --student are of one exercise" in cli("exercise", "check", "--seed", 1).err
    assert not (here / "my_exercises" / ".minidecode" / "predictions.json").exists(), "no answer was told"
