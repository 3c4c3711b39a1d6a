"""`minidecode project ...`: the course project, an engine of your own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import InputError, OptionError, quoted
from .child_process import child_environment
from .flags import AsJson, Debug
from .help_text import WithExamples

SECONDS = 180  # for one stage, or for one turn of a race


class Project(WithExamples, TyperGroup):
    """The group of commands, with examples."""


app = typer.Typer(
    cls=Project, help="The course project: a decoder of your own in twelve stages.", rich_markup_mode=None
)


@app.callback(invoke_without_command=True)
def _help(context: typer.Context):
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)


Where = Annotated[Path, typer.Option("--folder", "-f", help="Where you work.")]
FOLDER = Path("my_engine")


@app.command()
def start(
    folder: Where = FOLDER,
    student: Annotated[str | None, typer.Option("--student", help="Draw the checkpoint's names and layout from this"
                                                " name.", show_default=False)] = None,
    debug: Debug = False,
):  # fmt: skip
    """Write engine.py with empty functions, and a checkpoint to load."""
    from ..course.project.checkpoint import write_checkpoint
    from ..course.project.skeleton import engine_skeleton
    from .whole_file import whole_file

    engine = folder / "engine.py"
    if engine.exists():
        raise OptionError(f"{quoted(engine)} is there already, and stays as it is: choose another --folder")
    write_checkpoint(folder / "checkpoint", student)
    with whole_file(engine) as file:
        file.write(engine_skeleton())
    print(f"{quoted(engine)}: twelve stages, a function or three each; begin with load and forward")
    print(f"{quoted(folder / 'checkpoint' / 'LAYOUT.txt')}: which tensor is which")
    there = "" if folder == FOLDER else f" --folder {quoted(folder)}"
    print(f"To check what you have: minidecode project check{there}")


Stages = Annotated[list[int] | None, typer.Argument(help="Numbers of stages; all by default.", show_default=False)]


@app.command()
def check(stages: Stages = None, folder: Where = FOLDER, as_json: AsJson = False, debug: Debug = False):
    """Check your stages: answers, bytes held, numbers multiplied."""
    results = []
    for result in _run("check", folder, stages):
        results.append(result)
        if not as_json:
            print(_in_words(result), flush=True)
            if result["state"] != "passed" and stages is None:
                break  # the next stages build on it
    passed = sum(r["state"] == "passed" for r in results)
    if as_json:
        print(json.dumps(results, indent=1))
    elif passed == len(results) and stages is None:
        print("All stages pass. minidecode project race times them.")
    if passed < len(results):
        raise typer.Exit(1)


def _in_words(result: dict[str, Any]) -> str:
    numbers = "; ".join(f"{name} {_number(value)}" for name, value in result["numbers"].items())
    state = {"passed": f"passed ({result['seconds']:.1f} s)", "not begun": "not begun", "wrong": "not yet",
             "missing": "not yet"}[result["state"]]  # fmt: skip
    title = f"stage {result['stage']:>2}, {result['title']} (chapter {result['chapter']})"
    lines = [f"{title}: {state}", result["message"], numbers]
    return "\n    ".join(line for line in lines if line)


def _number(value: Any) -> str:
    if isinstance(value, str):
        return repr(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


@app.command()
def race(
    folder: Where = FOLDER,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Draw the race into this SVG file.")] = None,
    as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """Time your stages against each other and against minidecode."""
    from ..course.project.race import picture
    from .whole_file import whole_file

    passed = []
    for result in _run("check", folder, None):
        if result["state"] != "passed":
            break
        passed.append(result["stage"])
    if max(passed, default=0) < 2:
        raise InputError("a race needs stages 1 and 2: minidecode project check says how far you are")
    results, work = [], None
    for result in _run("race", folder, passed):
        if "turn" in result:
            print(f"{result['work']}: turn {result['turn']} of {result['of']}", file=sys.stderr)
            continue
        results.append(result)
        if not as_json:
            if result["work"] != work:
                work = result["work"]
                print(f"{work}:")
            print(f"  {result['name']:<20} {result['tokens_per_second']:8,.1f} tokens/s", flush=True)
    if out is not None:
        with whole_file(out) as file:
            file.write(picture(results))
    if as_json:
        print(json.dumps(results, indent=1))


def _run(task: str, folder: Path, stages: list[int] | None) -> Iterator[dict[str, Any]]:
    """What the process with the student's engine says, one result at a time."""
    from ..course.project.stages import STAGES

    engine, wanted = folder / "engine.py", stages or list(STAGES)
    if unknown := [number for number in wanted if number not in STAGES]:
        raise OptionError(f"there is no stage {unknown[0]}: they are 1 to {max(STAGES)}")
    if not engine.is_file():
        raise OptionError(f"there is no {quoted(engine)}: minidecode project start writes it, or give --folder")
    numbers = ",".join(map(str, wanted))
    command = [
        sys.executable,
        "-m",
        "minidecode.course.project.run",
        task,
        str(engine),
        str(folder / "checkpoint"),
        numbers,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment()) as process:
        assert process.stdout is not None
        got, alarm = 0, Alarm(process)
        try:
            for line in process.stdout:
                alarm.stop()
                got += 1
                yield json.loads(line)
                alarm = Alarm(process)
            process.wait()
        finally:
            alarm.stop()
            process.kill()
    if alarm.has_rung or process.returncode or (task == "check" and got < len(wanted)):
        what = f"no answer within {SECONDS} s" if alarm.has_rung else f"it ended with code {process.returncode}"
        doing = f"stage {wanted[min(got, len(wanted) - 1)]}" if task == "check" else "the race"
        raise InputError(f"{quoted(engine)}, {doing}: {what}: is there an endless loop, or a call that ends Python?")


class Alarm:
    """Ends a process that has said nothing for SECONDS."""

    def __init__(self, process: subprocess.Popen):
        self.has_rung, self._process = False, process
        self._timer = threading.Timer(SECONDS, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def _ring(self) -> None:
        self.has_rung = True
        self._process.kill()

    def stop(self) -> None:
        self._timer.cancel()
