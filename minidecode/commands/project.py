"""`minidecode project ...`: the course project, an engine of your own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, OptionError, counted, quoted
from .child_process import environment_of_child
from .flags import AsJson, Debug, Quiet, output_flag
from .help_text import group_of_commands
from .progress_bar import progress_bar

app = group_of_commands("The course project: a decoder of your own in twelve stages.")

DEFAULT = "my_engine"
Where = Annotated[Path | None, typer.Option("--folder", "-f", help="Where you work.", show_default=DEFAULT)]


def _project_folder(given: Path | None) -> Path:
    """The folder that was given, or the one that `start` makes."""
    from ..course.exercises.folder import default_folder, refuse_file

    return refuse_file(given or default_folder(DEFAULT))


@app.command()
def start(
    folder: Where = None,
    student: Annotated[str | None, typer.Option("--student", help="Draw the checkpoint's names and layout from this"
                                                " name.", show_default=False)] = None,
    debug: Debug = False,
):  # fmt: skip
    """Write engine.py with empty functions, and a checkpoint to load."""
    from ..course.project.checkpoint import write_checkpoint
    from ..course.project.skeleton import engine_skeleton
    from .whole_file import whole_file

    folder, is_default = _project_folder(folder), folder is None
    engine = folder / "engine.py"
    if engine.exists():
        raise OptionError(f"{quoted(engine)} is there already, and stays as it is: choose another --folder")
    write_checkpoint(folder / "checkpoint", student)
    with whole_file(engine) as file:
        file.write(engine_skeleton())
    print(f"{quoted(engine)}: twelve stages, a function or three each; begin with load and forward")
    print(f"{quoted(folder / 'checkpoint' / 'LAYOUT.txt')}: which tensor is which")
    there = "" if is_default else f" --folder {quoted(folder)}"
    print(f"To check what you have: minidecode project check{there}")


Stages = Annotated[list[int] | None, typer.Argument(help="Numbers of stages; all by default.", show_default=False)]


@app.command()
def check(stages: Stages = None, folder: Where = None, as_json: AsJson = False, debug: Debug = False):
    """Check your stages: answers, bytes held, numbers multiplied."""
    from ..course.project.rules import LINES, broken_rules, lines_of_code

    folder, results = _project_folder(folder), []
    for result in _check_stages(folder, stages):
        results.append(result)
        if not as_json:
            print(_result_in_words(result), flush=True)
            if result["state"] != "passed" and stages is None:
                break  # the next stages build on it
    passed = sum(r["state"] == "passed" for r in results)
    source = (folder / "engine.py").read_text(encoding="utf-8-sig", errors="replace")
    rules = broken_rules(source)
    if as_json:
        print(json.dumps(results, indent=1))
    elif passed == len(results) and stages is None:
        print(f"All stages pass, in {counted(lines_of_code(source), 'line')} of code ({LINES} are allowed)."
              " minidecode project race times them.")  # fmt: skip
    if rules and not as_json:
        print(f"Against the rules of the project: {'; '.join(rules)}.")
    if passed < len(results) or rules:
        raise typer.Exit(1)


def _result_in_words(result: dict[str, Any]) -> str:
    numbers = "; ".join(f"{name} {_number_in_words(value)}" for name, value in result["numbers"].items())
    state = {"passed": f"passed ({result['seconds']:.1f} s)", "not begun": "not begun", "wrong": "not yet",
             "missing": "not yet"}[result["state"]]  # fmt: skip
    title = f"stage {result['stage']:>2}, {result['title']} (chapter {result['chapter']})"
    lines = [f"{title}: {state}", result["message"], numbers]
    return "\n    ".join(line for line in lines if line)


def _number_in_words(value: Any) -> str:
    if isinstance(value, str):
        return repr(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


@app.command()
def race(
    folder: Where = None,
    output: Annotated[Path | None, output_flag("Draw the race into this SVG file.")] = None,
    as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """Time your stages against each other and against minidecode."""
    from ..course.project.process import race_of
    from ..course.project.race import picture_of_race
    from .whole_file import whole_file

    folder, passed = _project_folder(folder), []
    for result in _check_stages(folder, None):
        if result["state"] != "passed":
            break
        passed.append(result["stage"])
    if max(passed, default=0) < 2:
        raise InputError("a race needs stages 1 and 2: minidecode project check says how far you are")
    results, work = [], None
    for result in race_of(folder / "engine.py", folder / "checkpoint", passed, environment_of_child()):
        if "turn" in result:
            print(f"{result['work']}: turn {result['turn']} of {result['of']}", file=sys.stderr)
            continue
        results.append(result)
        if not as_json:
            if result["work"] != work:
                work = result["work"]
                print(f"{work}:")
            print(f"  {result['name']:<20} {result['tokens_per_second']:8,.1f} tokens/s", flush=True)
    if output is not None:
        with whole_file(output) as file:
            file.write(picture_of_race(results))
    if as_json:
        print(json.dumps(results, indent=1))


def _check_stages(folder: Path, stages: list[int] | None) -> Iterator[dict[str, Any]]:
    """Prints the verdict on the student's engine, one stage at a time."""
    from ..course.project.check import results_of

    engine, wanted = folder / "engine.py", _known_stages(stages)
    if not engine.is_file():
        raise OptionError(f"there is no {quoted(engine)}: minidecode project start writes it, or give --folder")
    return results_of(engine, folder / "checkpoint", wanted)


def _known_stages(stages: list[int] | None) -> list[int]:
    """The stages that were asked for; all by default."""
    from ..course.project.stages import STAGES

    if unknown := [number for number in stages or () if number not in STAGES]:
        raise OptionError(f"there is no stage {unknown[0]}: they are 1 to {max(STAGES)}")
    return list(stages or STAGES)


@app.command()
def solution(debug: Debug = False):
    """Print our engine; a checkout or the instructor's package has it."""
    from ..course.exercises.skeleton import folders_with_solutions

    solutions = [root / "exercises" / "engine" / "solution.py" for root in folders_with_solutions()]
    path = next((path for path in solutions if path.is_file()), None)
    if path is None:
        raise OptionError("our engine is not installed with the package: it is on the site, and in the repository")
    print(path.read_text(encoding="utf-8"), end="")


@app.command()
def grade(
    folders: Annotated[list[Path], typer.Argument(help="One folder for each student, or a folder of such folders.")],
    stage: Annotated[list[int] | None, typer.Option("--stage", help="A stage that is due; repeatable."
                                                    "  [default: all]")] = None,
    format: Annotated[str, typer.Option(help="table, csv, json, or gradescope (its results.json, of one"
                                         " submission).")] = "table",
    per_student: Annotated[bool, typer.Option("--per-student", help="Each checkpoint is what `start --student` drew for"
                                              " the name of the folder.")] = False,
    student: Annotated[str | None, typer.Option("--student", help="The checkpoint is what `start --student` drew for"
                                                " this name.")] = None,
    quiet: Quiet = False, debug: Debug = False,
):  # fmt: skip
    """Grade many engines.

    Each in processes of its own, with a checkpoint that is written anew.
    """
    from ..course.project import grading

    forms = {
        "table": grading.as_table,
        "csv": grading.as_csv,
        "json": grading.as_json,
        "gradescope": grading.as_gradescope,
    }
    if format not in forms:
        raise OptionError(f"--format is table, csv, json or gradescope, not {format!r}")
    if student is not None and per_student:
        raise OptionError("the checkpoint comes from --student or from --per-student, not from both")
    engines, due = grading.engines_of_folders(folders), _known_stages(stage)
    with progress_bar("grading", quiet) as report:
        graded = grading.grade(engines, due, student=student, per_student=per_student, progress=report)
    print(forms[format](graded), end="" if format == "csv" else "\n")
