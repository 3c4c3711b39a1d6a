"""`minidecode exercise ...`: thin over folder.py, the tasks and grade.py."""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import OptionError, quoted
from .flags import AsJson, Debug, Quiet
from .help_text import group_of_commands
from .progress_bar import progress_bar

if TYPE_CHECKING:
    from ..course.exercises.folder import Folder
    from ..course.exercises.verdict import Verdict


app = group_of_commands("The exercises: start one, check it, take a hint. For teachers: grade many.")

Which = Annotated[str, typer.Argument(metavar="EXERCISE", help="Its number or a part of its name, such as 15 or hars.")]
Where = Annotated[Path | None, typer.Option("--folder", "-f", help="Where you work.  [default: my_exercises]")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Which variation: layout, sizes, n.  [default: 0]")]
Student = Annotated[str | None, typer.Option("--student", help="Draw the variation from this name.")]


@app.command("list")
def list_exercises(folder: Where = None, as_json: AsJson = False, debug: Debug = False):
    """List all exercises, and how far you are.

    Of each: its kind, its minutes, and which core course it belongs to.
    """
    from ..course.exercises.find import exercises
    from ..course.exercises.folder import Folder, work_folder

    work = work_folder(folder)
    rows = [
        {"number": e.number, "name": e.name, "kind": e.text.kind, "title": e.text.title, "chapter": e.text.chapter,
         "minutes": e.text.minutes, "core_hours": e.text.hours, "state": work.state(e)}
        for e in exercises().values()
    ]  # fmt: skip
    if not work.has_any():
        here = Folder(Path()).has_any()
        advice = "this folder has some: --folder ." if here else "minidecode exercise start 1 writes the first"
        print(f"No exercise is started in {work.path}: {advice}", file=sys.stderr)
    if as_json:
        print(json.dumps(rows))
        return
    width = max(len(r["title"]) for r in rows)
    for r in rows:
        core = f"core {r['core_hours']} h" if r["core_hours"] else ""
        line = f"{r['number']:>2}  {r['kind']}  {r['title']:<{width}}  {r['minutes']:>3} min  {core:<9}  {r['state']}"
        print(line.rstrip())
    kinds = "N write NumPy, K write a kernel, M mend the bug, C make it cheaper, P predict."
    core = "Core 3 h: part of the course of three hours, and of the longer ones. Times are estimates."
    print(f"{kinds} {core}", file=sys.stderr)


@app.command()
def start(
    exercise: Which, folder: Where = None, seed: Seed = None, student: Student = None, debug: Debug = False,
):  # fmt: skip
    """Write the skeleton of an exercise into your folder."""
    from ..course.exercises.find import find
    from ..course.exercises.folder import work_folder

    task = find(exercise)
    path = work_folder(folder, makes=True).start(task, _seed_of_student(seed, student))
    print(path)
    print(f"chapter {task.text.chapter} explains it: minidecode tutorial {task.text.chapter}", file=sys.stderr)
    print(f"then: minidecode exercise check {task.number if folder is None else quoted(path)}", file=sys.stderr)


@app.command()
def check(
    exercise: Annotated[str | None, typer.Argument(metavar="[EXERCISE]", show_default=False,
        help="Number, name, or the file itself.  [default: all that you have begun, but predictions]")] = None,
    folder: Where = None,
    target: Annotated[str | None, typer.Option(help="module:function or FILE.py:function: yours, wherever it lies.")]
    = None,
    seed: Seed = None, student: Student = None, as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """Judge what you wrote: exit code 0 if it is solved, 1 if not."""
    if exercise is None:
        _check_all(folder, target, seed is not None or student is not None, as_json)
        return
    from ..course.exercises.checking import check as judge
    from ..course.exercises.find import find
    from ..course.exercises.folder import read_submission
    from ..course.exercises.folder import target_submission as find_target

    task = find(exercise)
    work, file = _folder_and_file(exercise, folder)
    path = file or (work.path_of_exercise(task) if target else work.existing_path(task))
    submission = find_target(target, task) if target else read_submission(path)
    asked = _seed_of_student(seed, student) if seed is not None or student else None
    verdict, picture = judge(task, submission, work, asked)
    if as_json:
        print(_value_in_json(_record_of_verdict(verdict, picture)))
    else:
        print(verdict)
        if picture:
            print(f"\nA picture: {picture}")
    if not verdict.ok:
        raise typer.Exit(1)


def _folder_and_file(exercise: str, folder: Path | None) -> tuple[Folder, Path | None]:
    """The student's folder, and the file, if a file names the exercise."""
    from ..course.exercises.folder import work_folder

    file = Path(exercise) if exercise.endswith(".py") else None
    return work_folder(file.parent if folder is None and file else folder), file


def _check_all(folder: Path | None, target: str | None, is_varied: bool, as_json: bool) -> None:
    """All that was begun, in a line each. A prediction is left out: a check would tell its answer."""
    from ..course.exercises.checking import check as judge
    from ..course.exercises.folder import read_submission, work_folder

    if target or is_varied:
        raise OptionError("--target, --seed and --student are of one exercise: name it, as in exercise check 1")
    work = work_folder(folder)
    begun = [e for e in work.started() if work.state(e) != "not begun"]
    asked = [e for e in begun if e.text.kind != "P"]
    left_out = [str(e.number) for e in begun if e.text.kind == "P"]
    if left_out:
        print(f"predictions are checked by their number: {', '.join(left_out)}", file=sys.stderr)
    if not asked:
        as_written = len(work.started()) - len(begun)
        there = f" ({as_written} as started, {len(left_out)} predictions)" if as_written + len(left_out) else ""
        raise OptionError(
            f"nothing in {work.path.resolve()} has an answer to check{there}: write into a file, or begin one with "
            "minidecode exercise start NUMBER"
        )
    records, solved = [], 0
    for task in asked:
        verdict, picture = judge(task, read_submission(work.path_of_exercise(task)), work)
        solved += verdict.ok
        records.append(_record_of_verdict(verdict, picture))
        if not as_json:
            said = "solved" if verdict.ok else verdict.message.split("\n")[0]
            print(f"{task.number:>2}  {task.text.title}: {said}", flush=True)
    if as_json:
        print(_value_in_json(records))
    else:
        print(f"{solved} of {len(asked)} are solved", file=sys.stderr)
    if solved < len(asked):
        raise typer.Exit(1)


def _record_of_verdict(verdict: Verdict, picture: Path | None) -> dict[str, Any]:
    return verdict.as_dict() | {"picture": str(picture) if picture else None}


def _value_in_json(value: Any) -> str:
    return json.dumps(value, default=lambda n: n.item() if hasattr(n, "item") else str(n))


@app.command()
def score(
    exercise: Which, folder: Where = None,
    league: Annotated[int, typer.Option(min=0, help="Which inputs and constants: the same for all.")] = 0,
    debug: Debug = False,
):  # fmt: skip
    """Print your kernel's counts, for the league.

    An accepted kernel gets a line with a checksum. It also goes into league.txt of your folder: hand in both.
    """
    from .. import __version__
    from ..course.exercises import league as leagues
    from ..course.exercises.find import find
    from ..course.exercises.folder import read_submission

    task = find(exercise)
    work, file = _folder_and_file(exercise, folder)
    path = file or work.existing_path(task)
    verdict, scored = leagues.score(task, read_submission(path), league, __version__)
    if scored is None:
        print(verdict)
        raise typer.Exit(1)
    print(scored)
    print(f"{leagues.count_in_words(task.task.ranked)} count, the fewest first", file=sys.stderr)
    print(f"kept in {leagues.keep_line(path.parent, scored)}: hand it in with {path.name}", file=sys.stderr)


@app.command()
def hint(
    exercise: Which, folder: Where = None,
    every: Annotated[bool, typer.Option("--all", help="All three.")] = False, debug: Debug = False,
):  # fmt: skip
    """Print the next of three hints."""
    from ..course.exercises.find import find
    from ..course.exercises.folder import work_folder

    task = find(exercise)
    work = work_folder(folder)
    last = len(task.text.hints) if every else work.next_hint(task)
    for number in range(1 if every else last, last + 1):
        count = len(task.text.hints)
        print(f"Hint {number} of {count}{', the last one' * (number == count)}")
        print(task.in_text(task.text.hints[number - 1], work.seed(task) or 0))


@app.command()
def solution(
    exercise: Which, folder: Where = None,
    another: Annotated[bool, typer.Option("--another", help="The second one, in another style.")] = False,
    debug: Debug = False,
):  # fmt: skip
    """Print a solution; a checkout or the instructor's package has it."""
    from ..course.exercises.find import find
    from ..course.exercises.folder import work_folder

    task = find(exercise)
    place = task.folder()
    if place is None:
        raise OptionError(
            "solutions are not installed with the package: teachers install them by pip install ./exercises in a"
            f" checkout, which has them under exercises/{Path(task.file_name).stem}/"
        )
    seed = work_folder(folder).seed(task) or 0
    print(task.vary_source(place / ("another.py" if another else "solution.py"), seed), end="")


@app.command()
def reset(
    exercise: Which, folder: Where = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="With another variation.")] = False,
    seed: Seed = None, student: Student = None, debug: Debug = False,
):  # fmt: skip
    """Write the skeleton again; your file becomes .bak.

    Of the same variation, if no other is asked for.
    """
    from ..course.exercises.find import find
    from ..course.exercises.folder import work_folder

    if fresh and (seed is not None or student):
        raise OptionError("--fresh draws a variation, and --seed or --student names one: say one of them")
    task = find(exercise)
    work = work_folder(folder)
    backup = work.reset(task, _seed_of_student(seed, student) if seed is not None or student else None)
    if fresh:
        work.renew_variation(task, work.path_of_exercise(task), work.seed(task) or 0)
    print(work.path_of_exercise(task))
    print(f"what was there is in {backup}", file=sys.stderr)


@app.command()
def grade(
    folders: Annotated[list[Path], typer.Argument(help="One folder for each student, or a folder of such folders.")],
    exercise: Annotated[list[str] | None, typer.Option("--exercise", "-e", help="Only this one; may repeat.")]
    = None,
    format: Annotated[str, typer.Option(help="table, csv, json, or gradescope (its results.json, of one"
                                         " submission).")] = "table",
    hidden: Annotated[int | None, typer.Option(min=0, help="Your seed for hidden inputs."
                                               "  [default: drawn, and told]")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="The variation that is due.  [default: what each"
                                             " file says]")] = None,
    per_student: Annotated[bool, typer.Option("--per-student", help="Due is what `start --student NAME` drew for"
                                              " the name of the folder.")] = False,
    student: Annotated[str | None, typer.Option("--student", help="Due is what `start --student` drew for this"
                                                " name.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Submissions judged at a time.")] = min(4, os.cpu_count() or 1),
    quiet: Quiet = False, debug: Debug = False,
):  # fmt: skip
    """Grade many submissions.

    Each in processes of its own, with limits on time and memory.
    """
    from ..course.exercises import grade as grading
    from ..course.exercises import sandbox
    from ..course.exercises.find import find

    if format not in ("table", "csv", "json", "gradescope"):
        raise OptionError(f"--format is table, csv, json or gradescope, not {format!r}")
    if (seed is not None or student is not None) and per_student:
        raise OptionError(
            "the variation that is due comes from --seed or --student, or from --per-student, not from both"
        )
    which = list(dict.fromkeys(find(e) for e in exercise)) if exercise else None
    students, again = grading.submissions_of_folders(folders)
    if format == "gradescope":
        students = grading.one_submission(students)
    due = None if seed is None and student is None else _seed_of_student(seed, student)
    hidden = secrets.randbits(32) if hidden is None else hidden
    if not quiet:
        repeated = [f"{folder} was given twice: it counts once" for folder in again]
        limits = ["What this system enforces:", *sandbox.limits_in_words()]
        seeds = [f"hidden inputs: --hidden {hidden}"] if format == "gradescope" else []  # other results hold it
        print("\n".join([*repeated, *limits, *seeds]), file=sys.stderr)
    with progress_bar("grading", quiet) as report:
        graded = grading.grade(
            students,
            which,
            hidden=hidden,
            seed=due,
            per_student=per_student,
            by_name=student is not None,
            jobs=jobs,
            progress=report,
        )
    if format == "json":
        print(grading.as_json(graded, hidden=hidden, limits=sandbox.limits_in_words()))
    elif format == "gradescope":
        print(grading.as_gradescope(graded))
    elif format == "csv":
        print(grading.as_csv(graded, hidden), end="")
    else:
        print(grading.as_table(graded, hidden))


def _seed_of_student(seed: int | None, student: str | None) -> int:
    from ..course.exercises.exercise import seed_from_name

    if seed is not None and student is not None:
        raise OptionError("a variation is drawn from --seed or from --student, not from both")
    return seed if seed is not None else seed_from_name(student) if student is not None else 0
