"""Many submissions to many exercises: each code in a process of its own, the verdicts here.

A submission is a folder with files NN_name.py, or a folder of such folders. Inputs that `check` has never shown are
drawn from the teacher's seed and tried after the public ones.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from . import published, skeleton
from .exercise import Submission, seed_from_name
from .find import Exercise, exercises
from .verdict import Verdict


@dataclass
class Graded:
    """One exercise of one student. verdict: None where nothing was handed in; strays: files that are no exercise's."""

    student: str
    exercise: Exercise
    verdict: Verdict | None
    strays: tuple[str, ...] = ()

    @property
    def result(self) -> str:
        if self.verdict is None:
            return "absent"
        return "solved" if self.verdict.ok else self.verdict.mistake or "wrong"

    @property
    def score(self) -> float:
        """1 or 0: solved or not; a prediction counts if it is there, right or wrong, since its answer is easily had."""
        return float(self.verdict is not None and (self.verdict.ok or self.verdict.score is not None))

    @property
    def message(self) -> str:
        """The verdict in words, on one line or several."""
        if self.verdict is not None:
            return self.verdict.message
        return f"Nothing was handed in. {self.strays_in_words}".rstrip()

    @property
    def strays_in_words(self) -> str:
        """What lies there instead, as a sentence."""
        if not self.strays:
            return ""
        are = "are no files" if len(self.strays) > 1 else "is no file"
        return f"{', '.join(self.strays)} {are} of an exercise; {self.exercise.file_name} would be."


def submissions_of_folders(folders: Iterable[Path]) -> tuple[dict[str, Path], list[Path]]:
    """(student -> folder, each folder once; folders that were given again).

    A folder next to folders that hold submissions is a student's, whatever is in it. A link among them stays a link
    and gets a row of its own; links in `folders` are followed. Raises InputError where nothing was
    handed in, and where a folder is a student's and a class at once.
    """
    folder_of: dict[str, Path] = {}
    again, seen, folders = [], set(), list(folders)
    empty = [
        folder for folder in folders if folder.is_dir() and not _exercise_files(folder) and not _student_folders(folder)
    ]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder: name a student's, or one that holds a folder for each")
        inner = _student_folders(folder)
        if inner and (files := _exercise_files(folder)):
            raise InputError(
                f"{folder} holds {files[0].name} and also folders with such files"
                f" ({next(filter(_exercise_files, inner)).name}):"
                " a student's folder has files, a class has folders; move one of the two away"
            )
        if not inner and len(empty) == len(folders):
            raise InputError(
                f"{folder} holds no file of an exercise, such as {next(iter(exercises().values())).file_name}"
            )
        for each in inner or [folder]:
            name = _student_name(each)
            if each.is_symlink():
                if inner:
                    folder_of[name if name not in folder_of else str(each)] = each
                    continue
                each = each.resolve()
            if each.resolve() in seen:
                again.append(each)
                continue
            seen.add(each.resolve())
            folder_of[name if name not in folder_of else str(each)] = each
    return folder_of, again


def one_submission(students: dict[str, Path]) -> dict[str, Path]:
    """The one of these folders that has files of exercises, for a report without names.

    Raises InputError where several have: their points would be added up.
    """
    handed_in = {name: folder for name, folder in students.items() if _exercise_files(folder)}
    if len(handed_in) > 1:
        raise InputError(
            f"--format gradescope is for one submission, and there are {len(handed_in)} folders with files of exercises"
            f" ({', '.join(list(handed_in)[:3])}{', ...' if len(handed_in) > 3 else ''}): give one of them"
        )
    return handed_in


def _student_name(folder: Path) -> str:
    """The name of a folder, also where it is given as "."."""
    return folder.name or folder.resolve().name


def name_on_a_line(name: str) -> str:
    """A name that the student has chosen, for a table: it begins no line and moves no cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _student_folders(folder: Path) -> list[Path]:
    """The folders in it, those of students, if any of them holds a file of an exercise."""
    folders = [f for f in sorted(folder.iterdir()) if f.is_dir() and not f.name.startswith((".", "__"))]
    return folders if any(map(_exercise_files, folders)) else []


def _unknown_files(folder: Path) -> tuple[str, ...]:
    known = {e.file_name for e in exercises().values()}
    return tuple(sorted(name_on_a_line(f.name) for f in folder.glob("*.py") if f.name not in known))


def _exercise_files(folder: Path) -> list[Path]:
    return [folder / e.file_name for e in exercises().values() if (folder / e.file_name).is_file()]


def grade(
    students: dict[str, Path], which: list[Exercise] | None = None, *, hidden: int, seed: int | None = None,
    per_student: bool = False, by_name: bool = False, jobs: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Graded]:  # fmt: skip
    """Grades all `students` (see `submissions_of_folders`). which: by default all exercises that anybody handed in.

    seed: the variation that is due; per_student: each one's own, from the folder's name, as `start --student` draws it.
    Without either, the one that a file says it holds. by_name: the seed is that of a student's name.
    """
    if which is None:
        which = [e for e in exercises().values() if any((f / e.file_name).is_file() for f in students.values())]
    work = [(student, folder, exercise) for exercise in which for student, folder in students.items()]

    names = {seed_from_name(name): name for name in map(_student_name, map(Path, students))} if per_student else {}

    def grade_submission(item: tuple[str, Path, Exercise]) -> Graded:
        student, folder, exercise = item
        due = seed_from_name(_student_name(Path(student))) if per_student else seed
        of_names = names if per_student or by_name else None
        return Graded(
            student, exercise, _verdict_of_submission(folder, exercise, due, hidden, of_names), _unknown_files(folder)
        )

    results = []
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        for done, graded in enumerate(pool.map(grade_submission, work), 1):
            results.append(graded)
            progress(done, len(work))
    return results


def _verdict_of_submission(
    folder: Path, exercise: Exercise, due: int | None, hidden: int, names: dict[int, str] | None = None
) -> Verdict | None:
    """names: the students of the class by their seeds, where what is due comes from a name."""
    path = folder / exercise.file_name
    if folder.is_symlink() or path.is_symlink():  # it may lead to a neighbour's
        message = f"{path.name} is a link: hand in the file itself."
        if folder.is_symlink():
            message = f"{name_on_a_line(folder.name)} is a link to a folder: hand in the folder itself."
        return Verdict(exercise.number, due or 0, False, message, "cannot-run")
    if not path.is_file():
        return None
    try:
        submission = Submission.of_file(path)
    except InputError as error:
        return Verdict(exercise.number, due or 0, False, str(error), "cannot-run")
    except OSError as error:
        return Verdict(exercise.number, due or 0, False, f"{path.name} cannot be read: {error.strerror}", "cannot-run")
    held = skeleton.seed_in_source(submission.source, exercise.number)
    if due is not None and not exercise.is_due(held, due):
        kind = "other-variation" if held is None or names is None else "of-another-student"
        return Verdict(exercise.number, due, False, _other_variation_message(held, due, names), kind)
    try:
        verdict = exercise.check(submission, held or 0, hidden=hidden)
        return look_up_published(verdict, exercise, submission.source) if verdict.ok else verdict
    except Exception as error:  # one submission must not end the grading of all others
        message = f"The grader itself failed, which is its mistake: {type(error).__name__}: {error}"
        return Verdict(exercise.number, held or 0, False, message, "grader-failed")


def _other_variation_message(held: int | None, due: int, names: dict[int, str] | None) -> str:
    """The message that a file holds another variation than the one that is due."""
    if held is None:
        return f"The file does not say its variation, and {due} is due."
    if names is None:
        return f"The file is of variation {held}, and {due} is due."
    whose = f", {name_on_a_line(names[held])}" if held in names else ""
    return f"This is a file drawn for another student{whose} (variation {held}, and {due} is due)."


def look_up_published(verdict: Verdict, exercise: Exercise, source: str) -> Verdict:
    """Compares a right answer with the published solutions: a long match is refused, a short one is noted."""
    match = published.recognise_solution(source, exercise.published_solutions())
    if match is None:
        return verdict
    verdict.published = f"{Path(exercise.file_name).stem}/{match.file}"
    likeness = f"program is exercises/{verdict.published}, apart from names and numbers"
    if match.is_long(exercise.text.kind):
        verdict.ok, verdict.mistake, verdict.score = False, "published-solution", None
        verdict.message = f"The output is right, but the {likeness}."
    else:
        verdict.message += f"\nThe {likeness}; it is too short to prove that it was copied."
    return verdict


def as_table(graded: list[Graded], hidden: int) -> str:
    """A row for each student, a column for each exercise; then the class, by mistake; then files of no exercise."""
    numbers = list(dict.fromkeys(g.exercise.number for g in graded))
    students = list(dict.fromkeys(name_on_a_line(g.student) for g in graded))
    cells = {(name_on_a_line(g.student), g.exercise.number): g.result for g in graded}
    widths = {n: max(len(str(n)), *(len(cells[s, n]) for s in students)) for n in numbers}
    first = max(len("student"), *map(len, students))
    rows = [f"{'student':<{first}}  " + "  ".join(f"{n:<{widths[n]}}" for n in numbers)]
    rows += [f"{s:<{first}}  " + "  ".join(f"{cells[s, n]:<{widths[n]}}" for n in numbers) for s in students]
    missing = [f"{name_on_a_line(g.student)}: {g.strays_in_words}" for g in graded if g.verdict is None and g.strays]
    return "\n".join([*(row.rstrip() for row in rows), "", *class_report(graded), *missing, f"hidden inputs: {hidden}"])


def class_report(graded: list[Graded]) -> list[str]:
    """ "16 the n-gram ban as a kernel: 21 of 40 solved; 17 of 40: one block; 2 of 40: wrong" """
    lines = []
    for exercise in dict.fromkeys(g.exercise for g in graded):
        results = Counter(g.result for g in graded if g.exercise is exercise)
        total = sum(results.values())
        parts = [f"{results.pop('solved', 0)} of {total} solved"]
        words = {"wrong": "wrong in a way that has no name", "absent": "nothing handed in"}
        parts += [f"{n} of {total}: {words.get(r, r.replace('-', ' '))}" for r, n in results.most_common()]
        alike = sum(g.exercise is exercise and g.result == "solved" and bool(g.verdict.published) for g in graded)
        parts += [f"{alike} of the solved match a published solution, too short to prove anything"] * bool(alike)
        lines.append(f"{exercise.number} {exercise.text.title}: {'; '.join(parts)}")
    return lines


def as_csv(graded: list[Graded], hidden: int) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["student", "exercise", "name", "solved", "result", "score", "message", "hidden"])
    for g in graded:
        message, solved = g.message.replace("\n", " "), int(g.result == "solved")
        row = [g.student, g.exercise.number, g.exercise.name, solved, g.result, g.score, message, hidden]
        rows.writerow([_text_without_formula(cell) for cell in row])
    return out.getvalue()


def _text_without_formula(cell: object) -> object:
    """A text that a spreadsheet would compute is kept a text: names and messages come from students."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in tuple("=+-@\t\r") else cell


def as_json(graded: list[Graded], **more: object) -> str:
    records = [
        {"student": g.student, "exercise": g.exercise.number, "name": g.exercise.name, "result": g.result,
         "score": g.score, "verdict": None if g.verdict is None else g.verdict.as_dict() | {"score": g.score}}
        for g in graded
    ]  # fmt: skip
    return json.dumps({**more, "class": class_report(graded), "graded": records}, default=_python_number)


def as_gradescope(graded: list[Graded]) -> str:
    """results.json of one submission, as Gradescope's autograders write it: a point for each exercise."""
    tests = []
    for g in graded:
        output = g.message if g.verdict is None else str(g.verdict)
        name = f"{g.exercise.number} {g.exercise.text.title}"
        tests.append({"name": name, "score": g.score, "max_score": 1, "output": output, "visibility": "visible"})
    return json.dumps({"tests": tests, "stdout_visibility": "hidden"}, default=_python_number)


def _python_number(value: object) -> object:
    """Numbers of NumPy as Python's."""
    return value.item() if hasattr(value, "item") else str(value)
