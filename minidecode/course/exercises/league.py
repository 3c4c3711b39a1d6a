"""A league by counts: what an accepted kernel costs on inputs that are the same for all, as one line with a checksum.

The checksum says which file a line belongs to. It is no secret, and anybody can compute one. To prove a line,
`verify_all_lines` runs the file again.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, OptionError
from . import grade, skeleton
from .exercise import Submission, Trial
from .find import Exercise, exercises
from .kernel_task import KernelTask
from .verdict import Verdict

FILE = "league.txt"  # beside a student's files: the lines that `score` printed
MOST_BYTES = 65536  # of that file
COUNTS = ("global_loads", "global_stores", "shared_loads", "shared_stores", "sectors", "bank_conflicts", "barriers",
          "shuffles", "votes", "atomics")  # fmt: skip
_LINE = re.compile(
    r"(\d{1,4}) (\w{1,60}) league=(\d{1,12}) version=(\S{1,40}) ((?:\w{1,20}=\d{1,18} )+)checksum=(\w{16})"
)


@dataclass(frozen=True)
class Score:
    """The counts of one kernel over all inputs of the league, and the checksum of its line."""

    number: int
    name: str
    league: int
    version: str
    counts: dict[str, int]
    checksum: str

    def __str__(self) -> str:
        counts = " ".join(f"{name}={count}" for name, count in self.counts.items())
        return (
            f"{self.number} {self.name} league={self.league} version={self.version} {counts} checksum={self.checksum}"
        )


def parse_line(line: str) -> Score:
    """A line as `score` prints it. Raises InputError for any other."""
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise InputError("it is no line of `minidecode exercise score`")
    number, name, league, version, counts, checksum = match.groups()
    by_name = {word: int(count) for word, count in (part.split("=") for part in counts.split())}
    return Score(int(number), name, int(league), version, by_name, checksum)


def checksum_of_line(exercise: Exercise, source: str, league: int, counts: dict[str, int], version: str) -> str:
    """A checksum of the exercise, the file, the league's inputs, the counts and the version.

    Of the file, what the student wrote: without the statement on top, the variation's constants and blank lines.
    """
    parts = [exercise.number, skeleton.written_lines(source), league, counts, version]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def score(exercise: Exercise, submission: Submission, league: int, version: str) -> tuple[Verdict, Score | None]:
    """(the verdict, the score of a file that is accepted). version: of minidecode.

    The file is judged as `grade` judges it, on inputs that are drawn now. Then it gets the constants of the league's
    variation, and must be right on the league's inputs, on others that are drawn now, and on the league's inputs in
    disguise. A kernel that does more on these has been made for the league's numbers, and is refused.

    Raises OptionError where the exercise has no kernel, and where the file does not say its variation.
    """
    task = exercise.task
    if not isinstance(task, KernelTask):
        kernels = ", ".join(str(e.number) for e in exercises().values() if isinstance(e.task, KernelTask))
        raise OptionError(
            f"exercise {exercise.number} has no kernel whose accesses are counted: the league has {kernels}"
        )
    held = skeleton.seed_in_source(submission.source, exercise.number)
    v = task.draw_variation(league)
    try:
        source = skeleton.replace_variation(submission.source, exercise.number, league, task.constants(v))
    except ValueError:
        held = None
    if held is None:
        raise OptionError(
            f"{submission.path} does not say its variation, and the league replaces these lines by its own: minidecode"
            f" exercise reset {exercise.number} writes them"
        )
    fresh = secrets.randbits(32)
    verdict = exercise.check(submission, held, hidden=fresh)
    if not verdict.ok:
        return verdict, None
    rng = np.random.default_rng(fresh)
    trials = [Trial(case) for case in task.cases(v, task.make_rng(league))]
    disguised = [Trial(task.disguise_inputs(v, t.inputs, rng), is_hidden=True) for t in trials]
    others = [Trial(case, is_hidden=True) for case in task.cases(v, task.make_rng(league, fresh))]
    verdict = task.judge(replace(submission, source=source), league, v, [*trials, *disguised, *others])
    if not verdict.ok:
        verdict.message = f"With the constants of league {league}: {verdict.message}"
        return verdict, None
    if message := _does_less(task, trials, disguised):
        return Verdict(exercise.number, league, False, message, "looks-at-inputs"), None
    counts = {"launches": len(trials)} | {name: sum(t.ran.counts[name] for t in trials) for name in COUNTS}
    return verdict, Score(exercise.number, exercise.name, league, version, counts,
                          checksum_of_line(exercise, submission.source, league, counts, version))  # fmt: skip


def _does_less(task: KernelTask, trials: list[Trial], disguised: list[Trial]) -> str:
    """The first input of the league on which a kernel does less than on the same in disguise, in words; else ""."""
    for trial, other in zip(trials, disguised, strict=True):
        here, there = trial.ran.counts[task.ranked], other.ran.counts[task.ranked]
        if here < there:
            return (
                f"{task.call(trial.inputs)} counts {here:,} {count_in_words(task.ranked)}, and {there:,} where the same"
                " numbers stand otherwise: in the league, a kernel does the same work whatever numbers it is given."
            )
    return ""


def count_in_words(count: str) -> str:
    """ "bank conflicts" """
    return count.replace("_", " ")


@dataclass
class Place:
    """One line that was handed in. problem: why it does not count; score: what it says, if it can be read."""

    student: str
    score: Score | None
    problem: str = ""
    program: str = ""  # the file, as the checksum has it


def keep_line(folder: Path, line: Score) -> Path:
    """Writes a line into the folder's league.txt, in the place of that exercise's earlier one."""
    path = folder / FILE
    there = _read_lines(path) if path.is_file() else []
    others = [text for text in there if not text.startswith(f"{line.number} ")]
    path.write_text("\n".join([*others, str(line)]) + "\n", encoding="utf-8")
    return path


def verify_all_lines(
    students: dict[str, Path], league: int, version: str, jobs: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Place]:  # fmt: skip
    """Every line of every student, each verified by running the student's file again."""
    work = [(student, folder, line) for student, folder in students.items() for line in _lines_of_folder(folder)]
    places = []

    def verify_item(item: tuple[str, Path, str]) -> Place:
        return recount_line(*item, league, version)

    with ThreadPoolExecutor(jobs) as pool:
        for done, place in enumerate(pool.map(verify_item, work) if jobs > 1 else map(verify_item, work), 1):
            places.append(place)
            progress(done, len(work))
    return places


def _lines_of_folder(folder: Path) -> list[str]:
    """The lines of a folder's league.txt, the last one of each exercise; of a link, none."""
    path = folder / FILE
    if folder.is_symlink() or path.is_symlink() or not path.is_file():
        return []
    return list({line.split(" ")[0]: line for line in _read_lines(path) if line.strip()}.values())


def _read_lines(path: Path) -> list[str]:
    """The lines of a file that may hold anything."""
    return path.read_bytes()[:MOST_BYTES].decode(errors="replace").splitlines()


def recount_line(student: str, folder: Path, line: str, league: int, version: str) -> Place:
    """Judges and counts the file of a line again, and says whether the line holds."""
    try:
        claimed = parse_line(line)
    except InputError as error:
        return Place(student, None, str(error))
    exercise = exercises().get(claimed.number)
    if exercise is None or exercise.name != claimed.name:
        return Place(student, claimed, f"there is no exercise {claimed.number} {claimed.name}")
    if claimed.league != league:
        return Place(student, claimed, f"it is of league {claimed.league}, and {league} is due")
    if claimed.version != version:
        return Place(student, claimed, f"it is of minidecode {claimed.version}, and this is {version}: score again")
    path = folder / exercise.file_name
    if path.is_symlink() or not path.is_file():
        return Place(student, claimed, f"the file {path.name} is not there, or is a link")
    try:
        submission = Submission.of_file(path)
        verdict, counted = score(exercise, submission, league, version)
    except (InputError, OptionError) as error:
        return Place(student, claimed, str(error))
    except Exception as error:  # one file must not end the league of all others
        return Place(student, claimed, f"the judge itself failed: {type(error).__name__}: {error}")
    if counted is not None:
        verdict = grade.look_up_published(verdict, exercise, submission.source)
    if counted is None or not verdict.ok:
        return Place(student, claimed, f"the file is not accepted: {verdict.message.splitlines()[0]}")
    return Place(
        student, claimed, _how_claim_differs(claimed, counted), json.dumps(skeleton.written_lines(submission.source))
    )


def _how_claim_differs(claimed: Score, counted: Score) -> str:
    """How a line differs from what its file counts; "" where it does not."""
    for name in dict.fromkeys([*counted.counts, *claimed.counts]):
        here, there = claimed.counts.get(name), counted.counts.get(name)
        if here != there:
            return f"it says {name}={here}, and the file counts {there}"
    if claimed.checksum != counted.checksum:
        return "its checksum is of another file: the file was changed after it was scored, or the line is another's"
    return ""


def as_table(places: list[Place]) -> str:
    """Each exercise with the kernels that count, the fewest first, ties sharing a rank; then the others."""
    parts = []
    for number in sorted({p.score.number for p in places if not p.problem}):
        task = exercises()[number].task
        ranked = sorted((p for p in places if not p.problem and p.score.number == number),
                        key=lambda p: (p.score.counts[task.ranked], p.student))  # fmt: skip
        parts.append(f"{number} {exercises()[number].text.title}: the fewest {count_in_words(task.ranked)}")
        counts = [p.score.counts[task.ranked] for p in ranked]
        width = max(len(grade.name_on_a_line(p.student)) for p in ranked)
        for place in ranked:
            count = place.score.counts[task.ranked]
            same = [grade.name_on_a_line(p.student) for p in ranked if p.program == place.program and p is not place]
            alike = f"  the same program as {', '.join(same)}" if same else ""
            parts.append(
                f"{1 + counts.index(count):>3}  {grade.name_on_a_line(place.student):<{width}}  {count:,}{alike}"
            )
        parts.append("")
    refused = [p for p in places if p.problem]
    parts.append(f"{len(places) - len(refused)} of {len(places)} lines hold")
    parts += [
        f"{grade.name_on_a_line(p.student)}, {p.score.number if p.score else 'a line'}:"
        f" {grade.name_on_a_line(p.problem)}"
        for p in refused
    ]
    return "\n".join(parts)


def as_records(places: list[Place]) -> list[dict[str, Any]]:
    """Returns a record of each place, as JSON can hold it."""
    return [
        {"student": p.student, "holds": not p.problem, "problem": p.problem, "line": str(p.score) if p.score else None,
         "exercise": p.score.number if p.score else None, "counts": p.score.counts if p.score else None}
        for p in places
    ]  # fmt: skip
