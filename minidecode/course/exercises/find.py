"""The exercises, found by the names of their files: tasks/eNN_name.py and tasks/eNN_name.md beside it."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import OptionError, did_you_mean, names_with
from . import published, skeleton
from .exercise import Submission, Task, seed_from_name
from .verdict import Verdict

HERE = Path(__file__).resolve().parent
_HEADING = re.compile(r"^# Hint [123]\n", re.MULTILINE)
MOST_TOLD = 100  # predictions of an exercise that a student may have had answered
FIELDS = {"title", "kind", "chapter", "minutes", "hours"}


@dataclass(frozen=True)
class Text:
    """eNN_name.md: what an exercise says of itself, its statement, and three hints, each a step further."""

    title: str
    kind: str  # N, K, M, C or P
    chapter: str
    minutes: int
    hours: int | None  # of which course it is a part: 3, 8 or 15 hours; None if of none
    statement: str
    hints: tuple[str, ...]


@dataclass(frozen=True)
class Exercise:
    """One exercise: its number and name, its text, and its task."""

    number: int
    name: str
    text: Text
    task: Task

    @property
    def file_name(self) -> str:
        return f"{self.number:02d}_{self.name}.py"

    def in_text(self, text: str, seed: int) -> str:
        """A text with {{name}} replaced by the variation's values."""
        values = vars(self.task.draw_variation(seed))
        return re.sub(r"\{\{(\w+)\}\}", lambda m: str(values[m[1]]), text)

    def next_seed(self, seed: int) -> int:
        """The variation that is drawn after this one, when its answer has been told."""
        return seed_from_name(f"{self.number} after {seed}")

    def is_due(self, held: int | None, due: int) -> bool:
        """Whether a file of this variation is due; for a prediction, so is one that `check` drew after it."""
        if self.text.kind != "P" or held is None:
            return held == due
        seed = due
        for _ in range(MOST_TOLD):
            if seed == held:
                return True
            seed = self.next_seed(seed)
        return False

    def check(self, submission: Submission, seed: int, **how: Any) -> Verdict:
        """The task's verdict; "not begun" on a file without a line by the student."""
        verdict = self.task.check(submission, seed, **how)
        if not verdict.ok and self.is_untouched(submission.source):
            begins, message = "Not begun: this is the file as it was started", verdict.message
            if message.startswith("Not started yet "):
                message = f"{begins} {message.removeprefix('Not started yet ')}"
            elif verdict.mistake == "not-started":
                message = f"{begins}. {message}"
            else:
                message = f"{begins}. It does this:\n{message}"
            verdict.mistake, verdict.message = "not-begun", message
        return verdict

    def is_untouched(self, source: str) -> bool:
        """Whether this is the file as `start` or `check` wrote it."""
        return skeleton.is_untouched(source, self.template())

    def start(self, seed: int) -> str:
        """The file that a student gets."""
        return self.renew_source(self.template(), seed)

    def renew_source(self, source: str, seed: int) -> str:
        """A student's file with the statement and the constants of this variation; all else stays."""
        head = (
            f"Exercise {self.number}: {self.text.title} (chapter {self.text.chapter}, about {self.text.minutes}"
            f" minutes)\nminidecode exercise check {self.number}; minidecode exercise hint {self.number}"
        )
        stated = skeleton.replace_docstring_by_statement(
            source, f"{head}\n\n{self.in_text(self.text.statement, seed).strip()}"
        )
        return skeleton.replace_variation(
            stated, self.number, seed, self.task.constants(self.task.draw_variation(seed))
        )

    def template(self) -> str:
        """The skeleton before its variation: from the solution in a checkout, else as it was built into the wheel."""
        if folder := self.folder():
            return skeleton.strip_solution((folder / "solution.py").read_text(encoding="utf-8"))
        return (HERE / "skeletons" / self.file_name).read_text(encoding="utf-8")

    def folder(self) -> Path | None:
        """exercises/NN_name of a checkout, with its solutions; None where the package is installed without."""
        name = f"{self.number:02d}_{self.name}"
        folders = (root / "exercises" / name for root in skeleton.folders_with_solutions())
        return next((folder for folder in folders if (folder / "solution.py").is_file()), None)

    def published_solutions(self) -> list[published_solutions.Published]:
        """The published solutions: read from a checkout, else as the build of the wheel noted them."""
        if folder := self.folder():
            return published.read_solutions(folder, self.template())
        noted = HERE / "skeletons" / published.NOTED
        return published.read_noted_solutions(noted, Path(self.file_name).stem) if noted.is_file() else []

    def vary_source(self, path: Path, seed: int) -> str:
        """A solution or a wrong answer of the checkout, with this variation's constants."""
        constants = self.task.constants(self.task.draw_variation(seed))
        return skeleton.replace_variation(path.read_text(encoding="utf-8"), self.number, seed, constants)


@lru_cache(maxsize=1)
def exercises() -> dict[int, Exercise]:
    """All of them by number."""
    by_number = {}
    for path in sorted((HERE / "tasks").glob("e[0-9][0-9]_*.py")):
        number, name = int(path.stem[1:3]), path.stem[4:]
        task = importlib.import_module(f"{__package__}.tasks.{path.stem}").Task()
        task.number, task.name = number, name
        by_number[number] = Exercise(number, name, _read_text(path.with_suffix(".md")), task)
    return by_number


def find(word: str) -> Exercise:
    """The exercise of this number, of this name, or of a name that alone has this part; a file needs the whole name.

    Raises OptionError if there is none, or more than one.
    """
    stem = Path(word).stem if word.endswith(".py") else word
    known = exercises()
    match = re.fullmatch(r"([0-9]{1,9})(_\w*)?", stem)
    if match and int(match[1]) in known:
        return known[int(match[1])]
    by_name = {e.name: e for e in known.values()}
    if stem.replace("-", "_") in by_name:
        return by_name[stem.replace("-", "_")]
    with_it = [] if word.endswith(".py") else names_with(word, by_name)
    if len(with_it) == 1:
        return by_name[with_it[0]]
    if with_it:
        listed = " and ".join(f"{by_name[name].number} ({name})" for name in with_it)
        raise OptionError(f"the exercises {listed} all have {word!r} in their names: give a number")
    raise OptionError(
        f"there is no exercise {word!r}: they have the numbers {min(known)} to {max(known)}, and names"
        f" (minidecode exercise list){did_you_mean(stem, by_name)}"
    )


def _read_text(path: Path) -> Text:
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    _, head, body = text.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.strip().splitlines())
    if set(fields) != FIELDS:
        raise ValueError(f"{path.name} must say {', '.join(sorted(FIELDS))}")
    statement, *hints = _HEADING.split(body)
    if len(hints) != 3:
        raise ValueError(f"{path.name} must have # Hint 1, # Hint 2 and # Hint 3")
    hours = None if fields["hours"] == "none" else int(fields["hours"])
    return Text(fields["title"], fields["kind"], fields["chapter"], int(fields["minutes"]), hours, statement.strip(),
                tuple(h.strip() for h in hints))  # fmt: skip
