"""The league: counts of accepted kernels, lines that a teacher verifies, and lines and kernels that cheat."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import pytest

from minidecode import __version__
from minidecode.commands.cli import main
from minidecode.course.exercises import league
from minidecode.course.exercises.exercise import Submission
from minidecode.course.exercises.find import exercises, find
from minidecode.course.exercises.kernel_task import KernelTask
from minidecode.errors import InputError, OptionError


def submission(number: int, name: str = "solution", seed: int = 3, **edits: str) -> Submission:
    exercise = find(str(number))
    source = exercise.vary_source(exercise.folder() / f"{name}.py", seed)
    for old, new in edits.items():
        source = source.replace(old, new)
    return Submission(Path(exercise.file_name), source)


def scored(number: int, given: Submission) -> league.Score:
    verdict, score = league.score(find(str(number)), given, 0, __version__)
    assert score is not None, str(verdict)
    return score


def refused(number: int, source: str) -> str:
    verdict, score = league.score(find(str(number)), Submission(Path("file.py"), source), 0, __version__)
    assert score is None and not verdict.ok
    return verdict.message


def verified(folder: Path, line: object) -> str:
    return league.recount_line("ada", folder, str(line), 0, __version__).problem


def hand_in(folder: Path, given: Submission, line: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / given.path.name).write_text(given.source, encoding="utf-8")
    (folder / league.FILE).write_text(f"{line}\n", encoding="utf-8")
    return folder


LINE = "        out[y, x] = FACTOR * a[y, x]"  # of exercise 1's solution


@pytest.fixture(scope="module")
def of_1() -> league.Score:
    return scored(1, submission(1))


def test_the_counts_are_those_that_one_counts_by_hand():
    """Of league 0, WIDTH is 64; its three inputs have 1, 2 and 3 blocks of 32 rows and threads."""
    assert find("12").task.draw_variation(0).width == 64
    blocks, numbers = 6, 6 * 32 * 64
    score = scored(12, submission(12))
    assert score.counts == {
        "launches": 3, "global_loads": numbers + blocks * 64, "global_stores": blocks * 32,
        "shared_loads": 2 * numbers, "shared_stores": numbers + blocks * 64,
        "sectors": 4 * (numbers + blocks * 64 + blocks * 32) // 32, "bank_conflicts": 0, "barriers": blocks,
        "shuffles": 0, "votes": 0, "atomics": 0,
    }  # fmt: skip
    assert league.parse_line(str(score)) == score and score.version == __version__


def test_a_line_does_not_depend_on_the_students_variation_or_editor(tmp_path, of_1):
    source = submission(1, seed=5).source
    assert "FACTOR = 8" in source, "it holds another variation"
    (tmp_path / "file.py").write_bytes(b"\xef\xbb\xbf" + source.replace("\n", "  \r\n").encode() + b"\r\n\r\n")
    assert scored(1, Submission.of_file(tmp_path / "file.py")) == of_1


@pytest.mark.parametrize("number, count", [(8, 56), (17, 2558), (26, 3503)])
def test_disguised_inputs_are_as_much_work_for_an_honest_kernel(number, count):
    score = scored(number, submission(number, "another"))
    assert score.counts[find(str(number)).task.ranked] == count


def test_every_kernel_has_a_count_to_be_ranked_by():
    ranked = {e.number: e.task.ranked for e in exercises().values() if isinstance(e.task, KernelTask)}
    assert len(ranked) == 11 and set(ranked.values()) <= set(league.COUNTS)


@pytest.mark.parametrize("number", [2, 15])
def test_what_has_no_kernel_is_refused_in_a_line(number):
    with pytest.raises(OptionError, match="no kernel whose accesses are counted: the league has 1, 8, 10,"):
        league.score(find(str(number)), Submission(Path("file.py"), "x = 1\n"), 0, __version__)


def test_a_file_without_its_variation_is_refused_in_a_line():
    source = submission(12).source
    for broken in (source.replace("# --- variation", "# ---"), source.replace("# --- end", "")):
        with pytest.raises(OptionError, match="does not say its variation"):
            league.score(find("12"), Submission(Path("file.py"), broken), 0, __version__)


# Lines that do not hold


def test_lines_that_do_not_hold_are_told(tmp_path, of_1, monkeypatch):
    """With the judge asked once: what it says is the same for one file."""
    given = submission(1)
    own = league.score(find("1"), given, 0, __version__)
    monkeypatch.setattr(league, "score", lambda *_: own)

    def problem(line: object, given: Submission = given) -> str:
        return verified(hand_in(tmp_path / "ada", given, line), line)

    def forged(**changes: object) -> league.Score:
        return dataclasses.replace(of_1, **changes)

    assert problem(of_1) == ""
    fewer = of_1.counts | {"sectors": 1}
    signed = league.checksum_of_line(find("1"), given.source, 0, fewer, __version__)
    for line in (forged(counts=fewer), forged(counts=fewer, checksum=signed)):
        assert problem(line) == "it says sectors=1, and the file counts 116"
    missing = {name: count for name, count in of_1.counts.items() if name != "barriers"}
    assert problem(forged(counts=missing)) == "it says barriers=None, and the file counts 0"
    assert problem(forged(counts=of_1.counts | {"luck": 7})) == "it says luck=7, and the file counts None"
    assert "checksum is of another file" in problem(forged(checksum="0" * 16))
    assert problem(forged(league=7)) == "it is of league 7, and 0 is due"
    assert "minidecode 9.9" in problem(forged(version="9.9"))
    assert "no exercise 1 tile" in problem(forged(name="tile"))
    for junk in ("12", f"{of_1} more", "x" * 5000, str(of_1).replace("116", "2" * 30)):
        assert problem(junk) == "it is no line of `minidecode exercise score`"
    (tmp_path / "ada" / given.path.name).unlink()
    assert "is not there" in verified(tmp_path / "ada", of_1)


def test_a_file_that_was_changed_afterwards_is_told(tmp_path, of_1):
    """Also where it counts the same, as another student's with another comment does."""
    changed = submission(1, **{LINE: f"{LINE}  # here"})
    folder = hand_in(tmp_path / "ada", changed, of_1)
    assert "checksum is of another file" in verified(folder, of_1)


def test_a_published_solution_does_not_count(tmp_path):
    given = submission(16)
    folder = hand_in(tmp_path / "ada", given, line := scored(16, given))
    assert "the program is exercises/16_ngram_kernel/solution.py" in verified(folder, line)


# Kernels that cheat


def with_table(score_on: int) -> str:
    """Exercise 16's kernel, which knows the league's largest input by four tokens, and its answer by heart."""
    task = find("16").task
    v = task.draw_variation(0)
    inputs = task.cases(v, task.make_rng(0))[-1]
    banned = task.expected_outputs(v, inputs)[0].nonzero()[0].tolist()
    known = " and ".join(f"tokens[{k}] == {inputs['tokens'][k]}" for k in range(score_on))
    table = "".join(f"        banned_RV[0, {token}] = 1\n" for token in banned)
    given = submission(16, seed=0).source
    line = "    r = cuda.blockIdx.x\n"
    assert line in given
    return given.replace(line, f"{line}    if stride == {inputs['stride']} and {known}:\n{table}        return\n")


def test_a_kernel_that_knows_the_leagues_inputs_is_refused():
    assert "counts" in (told := refused(16, with_table(4))) and "where the same numbers stand otherwise" in told


def test_an_answer_that_is_right_for_the_leagues_inputs_alone_is_refused():
    """It writes where a block begins with a number of the league's; the student's variation is the league's, too."""
    exercise = find("12")
    cases = exercise.task.cases(exercise.task.draw_variation(0), exercise.task.make_rng(0))
    known = " or ".join(f"tile[0, 0] == float32({number})" for case in cases for number in case["a"][::32, 0])
    write = "    out[first + t] = total"
    source = submission(12, seed=0, **{write: f"    if {known}:\n    {write}"}).source
    assert exercise.check(Submission(Path("file.py"), source), 0).ok, "`check` is content with it"
    assert "this one is the teacher's" in refused(12, source)


def test_an_answer_for_ones_own_constants_alone_is_refused():
    source = re.sub(r"range\(WIDTH\)", "range(96)", submission(12, seed=2).source)
    assert find("12").task.draw_variation(2).width == 96
    assert refused(12, source).startswith("With the constants of league 0: ")


# The commands


def run(monkeypatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["minidecode", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_a_class_is_ranked_and_ties_share_a_rank(tmp_path, monkeypatch, capsys, of_1):
    """eve's kernel writes each number twice; mallory hands in ada's line with a file of her own."""
    twice = submission(1, **{LINE: f"        out[y, x] = 0\n{LINE}"})
    other = submission(1, **{LINE: f"{LINE}  # bob"})
    for student, given in (("eve", twice), ("bob", other)):
        hand_in(tmp_path / student, given, "")
        assert run(monkeypatch, "exercise", "score", 1, "--folder", tmp_path / student) == 0
        kept = (tmp_path / student / league.FILE).read_text().split("\n")
        assert capsys.readouterr().out.strip() in kept
    hand_in(tmp_path / "ada", submission(1), of_1)
    hand_in(tmp_path / "mallory", twice, of_1)
    assert run(monkeypatch, "classroom", tmp_path, "--quiet", "--jobs", 1) == 1
    told = capsys.readouterr().out
    assert re.findall(r"(?m)^ +(\d)  (\w+) +([\d,]+)$", told) == [
        ("1", "ada", "116"), ("1", "bob", "116"), ("3", "eve", "174")]  # fmt: skip
    assert "3 of 4 lines hold" in told
    assert "mallory, 1: it says global_stores=227, and the file counts 454" in told


@pytest.mark.parametrize("flag", ["--quiet", "--json"])
def test_a_class_without_a_line_is_an_error(tmp_path, monkeypatch, capsys, flag):
    for student in ("ada", "bob"):
        hand_in(tmp_path / student, submission(1), "\n")
    (tmp_path / "ada" / league.FILE).unlink()
    assert run(monkeypatch, "classroom", tmp_path, flag) == 1
    told = capsys.readouterr()
    assert not told.out and told.err.count("\n") == 1 and "league.txt holds no line in any of these folders" in told.err


def test_a_kernel_that_is_not_accepted_has_no_line(tmp_path, monkeypatch, capsys):
    hand_in(tmp_path, submission(1, "wrong/unknown"), "")
    assert run(monkeypatch, "exercise", "score", 1, "--folder", tmp_path) == 1
    assert "checksum" not in capsys.readouterr().out and not (tmp_path / league.FILE).read_text().strip()


def test_a_line_replaces_the_earlier_one_beside_whatever_the_file_holds(tmp_path, of_1):
    (tmp_path / league.FILE).write_bytes(b"\xff\n1 scale of before\n12 other\n")
    assert league.keep_line(tmp_path, of_1).read_text(encoding="utf-8").splitlines() == [
        "\ufffd",
        "12 other",
        str(of_1),
    ]


def test_a_line_of_anything_else_cannot_be_read():
    with pytest.raises(InputError):
        league.parse_line("12 bank_conflicts")
