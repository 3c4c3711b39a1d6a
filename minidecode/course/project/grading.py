"""The project of a class: each engine in processes of its own, a verdict for each stage, as a table or a file."""

from __future__ import annotations

import csv
import io
import json
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError
from ..exercises import published
from .check import results_of
from .checkpoint import write_checkpoint
from .rules import broken_rules
from .skeleton import our_engine
from .stages import STAGES

WORDS = {"passed": "passed", "not begun": "-", "missing": "-", "wrong": "not yet"}  # in the table


@dataclass
class Graded:
    """One student's engine. results: of each stage what `project check --json` says; rules: those that it breaks.

    published: long functions that have the shape of one of ours, where ours is; whether they are copies is not judged.
    """

    student: str
    results: list[dict[str, Any]]
    rules: list[str]
    published: list[str]

    @property
    def points(self) -> int:
        """A point for each stage that passes; none for an engine that breaks a rule."""
        return 0 if self.rules else sum(result["state"] == "passed" for result in self.results)


def engines_of_folders(folders: Iterable[Path]) -> dict[str, Path]:
    """Student -> engine.py, in the folder of that name or in my_engine/ inside of it.

    A folder without one is a class, a folder for each student. Raises InputError where there is no engine.
    """
    by_student: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder: name a student's, or one that holds a folder for each")
        engine_here = _engine_file(folder)
        class_of = {f.name: f for f in sorted(folder.iterdir()) if _may_be_of_student(f)}
        inner = {} if engine_here else {name: engine for name, f in class_of.items() if (engine := _engine_file(f))}
        if not engine_here and not inner:
            raise InputError(f"{folder} holds no engine.py, nor folders of students that do")
        by_student |= inner if inner else {folder.name or folder.resolve().name: engine_here}
    return by_student


def _may_be_of_student(folder: Path) -> bool:
    """Whether it can be a student's: a link may lead to a neighbour's."""
    return folder.is_dir() and not folder.is_symlink() and not folder.name.startswith((".", "__"))


def _engine_file(folder: Path) -> Path | None:
    places = (folder / "engine.py", folder / "my_engine" / "engine.py")
    return next((place for place in places if place.is_file() and not place.is_symlink()), None)


def grade(
    engines: dict[str, Path], stages: list[int], *, student: str | None = None, per_student: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Graded]:  # fmt: skip
    """Checks every one of `engines`, each with a checkpoint that is written anew.

    per_student: the one that `start --student` draws for the name of the folder; student: for this name. Without
    either, tiny-gpt2 as it is published.
    """
    graded, ours = [], published.shapes_of_functions(our_engine() or "")
    seed, known = secrets.randbits(32), dict[Any, Any]()  # one draw for all, whose answers are computed once
    for done, (name, engine) in enumerate(engines.items(), 1):
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(folder) / "checkpoint"
            write_checkpoint(checkpoint, name if per_student else student)
            results = list(results_of(engine, checkpoint, stages, seed, known))
        source = engine.read_text(encoding="utf-8-sig", errors="replace")
        alike = [function for shape, function in published.shapes_of_functions(source).items() if shape in ours]
        graded.append(Graded(name, results, broken_rules(source), alike))
        progress(done, len(engines))
    return graded


def message_of(graded: Graded, result: dict[str, Any]) -> str:
    """The verdict on one stage, in one or two sentences."""
    message = result["message"] or result["state"]
    return f"{message} Against the rules: {'; '.join(graded.rules)}." if graded.rules else message


def as_table(graded: list[Graded]) -> str:
    """A row for each student, a column for each stage; then each stage by how many passed; then broken rules, and
    functions that are like ours."""
    stages = [result["stage"] for result in graded[0].results]
    first = max(len("student"), *(len(g.student) for g in graded))
    rows = [f"{'student':<{first}}  " + "  ".join(f"{n:<7}" for n in stages) + "  points"]
    for g in graded:
        cells = "  ".join(f"{WORDS[result['state']]:<7}" for result in g.results)
        rows.append(f"{g.student:<{first}}  {cells}  {g.points}")
    rows.append("")
    for k, number in enumerate(stages):
        states = Counter(WORDS[g.results[k]["state"]] for g in graded)
        rows.append(f"stage {number}, {STAGES[number].title}: {states['passed']} of {len(graded)} passed")
    rows += [f"{g.student}, against the rules: {'; '.join(g.rules)}" for g in graded if g.rules]
    rows += [f"{g.student}, as in our engine apart from names and numbers: {', '.join(g.published)}"
             for g in graded if g.published]  # fmt: skip
    return "\n".join(rows)


def as_csv(graded: list[Graded]) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["student", "stage", "title", "passed", "message"])
    for g in graded:
        for result in g.results:
            passed = int(result["state"] == "passed" and not g.rules)
            message = message_of(g, result).replace("\n", " ")
            rows.writerow(
                [
                    _text_without_formula(g.student),
                    result["stage"],
                    result["title"],
                    passed,
                    _text_without_formula(message),
                ]
            )
    return out.getvalue()


def _text_without_formula(cell: str) -> str:
    """No formula for a spreadsheet: names and messages come from students."""
    return f"'{cell}" if cell[:1] in tuple("=+-@\t\r") else cell


def as_json(graded: list[Graded]) -> str:
    return json.dumps(
        [
            {"student": g.student, "points": g.points, "rules": g.rules, "published": g.published, "stages": g.results}
            for g in graded
        ]
    )


def as_gradescope(graded: list[Graded]) -> str:
    """results.json of one submission, as Gradescope's autograders write it: a point for each stage."""
    if len(graded) != 1:
        raise InputError(f"--format gradescope is for one submission, and there are {len(graded)} engines: give one")
    (only,) = graded
    tests = [
        {"name": f"stage {result['stage']}: {result['title']}", "max_score": 1, "visibility": "visible",
         "score": int(result["state"] == "passed" and not only.rules), "output": message_of(only, result)}
        for result in only.results
    ]  # fmt: skip
    return json.dumps({"tests": tests, "stdout_visibility": "hidden"})
