"""`course.check(15)` in a notebook: the verdict on the cell that holds this exercise, as it was last run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ...errors import InputError, MinidecodeError

if TYPE_CHECKING:
    from .find import Exercise
    from .folder import Folder


def check(exercise: int | str) -> None:
    """Prints what `minidecode exercise check` prints of the same code, and draws its picture.

    The cell is written to my_exercises/, as the file that the command would check. An error that a student can mend is
    one line, as on the command line. Raises InputError where no notebook runs.
    """
    from .checking import check as checked  # here, since figures alone need no graders
    from .exercise import Submission
    from .find import find
    from .folder import work_folder

    task, folder = find(str(exercise)), work_folder(None)
    shell = _notebook_shell(task)
    source = _last_cell(task, shell)
    if source is None:
        print(
            f"No cell with exercise {task.number} has been run here: run the cell that holds its line"
            f' "# --- variation ... of exercise {task.number}", then this one.'
        )
        return
    folder.write_cell(task, source)
    try:
        verdict, picture = checked(task, Submission.of_file(folder.path_of_exercise(task)), folder)
        print(verdict)
        if picture:
            from IPython.display import SVG, display

            display(SVG(filename=str(picture)))
    except MinidecodeError as error:
        print(error)
    _offer_fresh_variation(task, folder, shell, source)


def _notebook_shell(exercise: Exercise) -> Any:
    """IPython, which runs the notebook. Raises InputError elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        raise InputError(
            "course.check() judges a cell of a notebook, and this is none: minidecode exercise check"
            f" {exercise.number} judges a file"
        )
    return shell


def _last_cell(exercise: Exercise, shell: Any) -> str | None:
    """The source of the cell that holds the answer, as it was last run; None if none was."""
    from .skeleton import seed_in_source

    for source in reversed(shell.history_manager.input_hist_raw):
        if seed_in_source(source, exercise.number) is not None:
            return source.rstrip() + "\n"
    return None


def _offer_fresh_variation(exercise: Exercise, folder: Folder, shell: Any, source: str) -> None:
    """Adds a cell below this one with the new variation, if the check has drawn one."""
    fresh = folder.path_of_exercise(exercise).read_text(encoding="utf-8")
    if fresh != source:
        folder.write_cell(exercise, fresh)
        shell.set_next_input(fresh)
        path = folder.path_of_exercise(exercise)
        print(f"The fresh one is in the cell below. If there is none, run `%load {path}` in a new cell.")
