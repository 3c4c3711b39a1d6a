"""A student's folder: the files that were started, what is solved, which hints were taken, what was predicted."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from pathlib import Path
from typing import Any

from ...errors import InputError, OptionError, quoted
from . import skeleton
from .exercise import Submission
from .find import Exercise, exercises
from .prediction_task import PredictionTask
from .verdict import Verdict

DEFAULT = "my_exercises"  # not `exercises`, which in a checkout holds the solutions
NOTES = ".minidecode"


def default_folder(name: str = DEFAULT) -> Path:
    """The folder that `start` makes; from inside it, that folder itself."""
    return Path() if Path().resolve().name == name else Path(name)


def refuse_file(place: Path) -> Path:
    """A folder that is there, or can be made. Raises InputError on a file."""
    if place.exists() and not place.is_dir():
        raise InputError(f"{place} is a file: --folder takes the folder that you work in, such as {place.parent}")
    return place


def work_folder(path: Path | None, makes: bool = False) -> Folder:
    """The student's folder; None for the one that `start` makes. Raises InputError where it cannot be worked in.

    makes: whether a folder that is not there will be made.
    """
    place = refuse_file(default_folder() if path is None else path)
    if path is not None and not path.exists() and not makes:
        raise InputError(
            f"there is no folder {path}: minidecode exercise start NUMBER --folder {quoted(path)} makes it"
        )
    return Folder(place)


class Folder:
    """The folder where a student works. It is written when an exercise is started or checked, and not before."""

    def __init__(self, path: Path):
        self.path = path

    @property
    def as_option(self) -> str:
        """The option that names this folder in a command; "" for the folder that `start` makes by default."""
        return "" if self.path == default_folder() else f" --folder {quoted(self.path)}"

    def path_of_exercise(self, exercise: Exercise) -> Path:
        return self.path / exercise.file_name

    def has_any(self) -> bool:
        return bool(self.started())

    def started(self) -> list[Exercise]:
        """The exercises that have a file here."""
        return [e for e in exercises().values() if self.path_of_exercise(e).is_file()]

    def existing_path(self, exercise: Exercise) -> Path:
        """The file of an exercise. Raises InputError where it has not been started here."""
        file = self.path_of_exercise(exercise)
        if file.is_file():
            return file
        if Path(exercise.file_name).is_file() and self.path.resolve() != Path().resolve():
            raise InputError(f"there is no file {file}, but {file.name} lies here: add --folder .")
        raise InputError(
            f"there is no file {file}: minidecode exercise start {exercise.number}{self.as_option} writes it; if you"
            " work elsewhere, say --folder FOLDER"
        )

    def start(self, exercise: Exercise, seed: int) -> Path:
        """Writes the skeleton. Raises OptionError where the file is there already."""
        file = self.path_of_exercise(exercise)
        if file.exists():
            reset = f"minidecode exercise reset {exercise.number}{self.as_option}"
            raise OptionError(f"{file} is there already: {reset} starts it anew")
        self.path.mkdir(parents=True, exist_ok=True)
        file.write_text(exercise.start(seed), encoding="utf-8")
        self._update_note(exercise, started=True)
        return file

    def reset(self, exercise: Exercise, seed: int | None = None) -> Path:
        """The skeleton again, of the same variation or of this one; what was there is kept beside it, as .bak."""
        file = self.existing_path(exercise)
        if seed is None:
            seed = self.seed(exercise)
        backup = self._set_aside(file)
        file.write_text(exercise.start(seed or 0), encoding="utf-8")
        return backup

    def write_cell(self, exercise: Exercise, source: str) -> None:
        """Writes what a notebook's cell holds. A file that no cell has written is kept beside it, as .bak."""
        file = self.path_of_exercise(exercise)
        if file.is_file():
            there, noted = file.read_text(encoding="utf-8-sig", errors="replace"), self._read_notes("state")
            if there != source and _hash_of(there) != noted.get(str(exercise.number), {}).get("cell"):
                self._set_aside(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, encoding="utf-8")
        self._update_note(exercise, cell=_hash_of(source))

    def _set_aside(self, file: Path) -> Path:
        """The file under a name that was free: what was kept before stays."""
        backups = (file.with_suffix(f".py.bak{number or ''}") for number in itertools.count())
        backup = next(path for path in backups if not path.exists())
        file.rename(backup)
        return backup

    def seed(self, exercise: Exercise) -> int | None:
        """The seed of the file that was started; None if there is none."""
        file = self.path_of_exercise(exercise)
        if not file.is_file():
            return None
        return skeleton.seed_in_source(file.read_text(encoding="utf-8-sig", errors="replace"), exercise.number)

    def state(self, exercise: Exercise) -> str:
        """ "solved", "changed since solved", "started", "not begun" (a skeleton with nothing written in it), or "" """
        solved = self._read_notes("state").get(str(exercise.number), {}).get("solved")  # True: in a file elsewhere
        file = self.path_of_exercise(exercise)
        if not file.is_file():
            return "solved" if solved else ""
        source = file.read_text(encoding="utf-8-sig", errors="replace")
        if solved:
            return "solved" if solved in (True, _hash_of(source)) else "changed since solved"
        return "not begun" if exercise.is_untouched(source) else "started"

    def next_hint(self, exercise: Exercise) -> int:
        """The number of the next hint, from 1.

        Raises OptionError where all were taken, and InputError where it cannot be noted which were.
        """
        number = self._read_notes("state").get(str(exercise.number), {}).get("hints", 0) + 1
        if number > (last := len(exercise.text.hints)):
            again = f"minidecode exercise hint {exercise.number} --all{self.as_option}"
            raise OptionError(f"all {last} hints were taken: {again} shows them again")
        try:
            self._update_note(exercise, hints=number)
        except OSError as error:
            raise InputError(
                f"{self.path / NOTES}, where taken hints are noted, cannot be written: {error.strerror}; minidecode"
                f" exercise hint {exercise.number} --all shows all three"
            ) from None
        return number

    def keep_verdict(self, exercise: Exercise, verdict: Verdict, source: str | None) -> Path | None:
        """Notes what came of a check; where there is a picture, the file that it was written to.

        source: what was judged, so that a later change is seen; None where it lies elsewhere.

        Where nothing can be written the verdict stands, and says so.
        """
        path = self.path / NOTES / f"{exercise.number:02d}.svg" if verdict.picture else None
        try:
            if verdict.ok:
                self._update_note(exercise, solved=True if source is None else _hash_of(source))
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(verdict.picture, encoding="utf-8")
        except OSError as error:
            verdict.notes.append(f"{self.path / NOTES} cannot be written ({error.strerror}): nothing of this is kept.")
            return None
        return path

    # Predictions

    def seal_prediction(self, exercise: Exercise, seed: int, values: dict[str, Any]) -> dict[str, Any] | None:
        """Writes a prediction down before the answer is computed; where it has been told before, gives that one."""
        log = self._read_notes("predictions").get("sealed", [])
        for entry in log:
            if (entry["exercise"], entry["seed"]) == (exercise.number, seed):
                return entry["values"]
        previous = log[-1]["seal"] if log else ""
        entry = {"exercise": exercise.number, "seed": seed, "values": values, "at": time.strftime("%Y-%m-%dT%H:%M:%S")}
        entry["seal"] = hashlib.sha256((previous + json.dumps(entry, sort_keys=True, default=str)).encode()).hexdigest()
        self._write_notes("predictions", {"sealed": [*log, entry]})
        return None

    def renew_variation(self, exercise: Exercise, file: Path, seed: int) -> int:
        """Another variation in the student's file, none whose answer has been told; its seed.

        The student's own lines stay. A prediction that was a plain value is None again and stays as a comment: it was
        about the other variation.
        """
        fresh = exercise.next_seed(seed)
        answered = {
            e["seed"] for e in self._read_notes("predictions").get("sealed", []) if e["exercise"] == exercise.number
        }
        while fresh in answered:
            fresh = exercise.next_seed(fresh)
        source = file.read_text(encoding="utf-8-sig")
        if isinstance(exercise.task, PredictionTask):
            source = skeleton.take_predictions_back(source, list(exercise.task.answers), seed)
        file.write_text(exercise.renew_source(source, fresh), encoding="utf-8")
        return fresh

    def _read_notes(self, name: str) -> dict[str, Any]:
        try:
            notes = json.loads((self.path / NOTES / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return notes if isinstance(notes, dict) else {}

    def _update_note(self, exercise: Exercise, **changes: Any) -> None:
        notes = self._read_notes("state")
        key = str(exercise.number)
        self._write_notes("state", notes | {key: notes.get(key, {}) | changes})

    def _write_notes(self, name: str, value: dict[str, Any]) -> None:
        path = self.path / NOTES / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=1, default=str), encoding="utf-8")


def _hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read_submission(path: Path, **fields: Any) -> Submission:
    """A student's file. Raises InputError where it cannot be read."""
    try:
        return Submission.of_file(path, **fields)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: minidecode exercise start NUMBER writes one") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def target_submission(place: str, exercise: Exercise) -> Submission:
    """`module:function` or `FILE.py:function` in a layout of the student's own. Nothing of it is imported here."""
    where, colon, name = place.rpartition(":")
    if not colon or not where or not name.isidentifier():
        raise InputError(f"name the function as module:function or FILE.py:function, not {place!r}")
    official = getattr(exercise.task, "kernel", "") or getattr(exercise.task, "function", "")
    if not official:
        raise OptionError(f"exercise {exercise.number} asks for numbers in its file: it takes no --target")
    names = {official: name}
    if where.endswith(".py"):
        return read_submission(Path(where), names=names)
    parts = where.split(".")
    for root in (Path(), Path("src")):
        for path in (root.joinpath(*parts).with_suffix(".py"), root.joinpath(*parts, "__init__.py")):
            if path.is_file():
                package = ".".join(parts if path.name == "__init__.py" else parts[:-1])
                submission = read_submission(path, names=names, package=package)
                submission.root = root.resolve()
                return submission
    raise InputError(f"there is no module {where} below {Path().resolve()}, nor below its folder src")
