"""`minidecode classroom`: the league of a class, each line verified by running its file again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from .flags import AsJson, Debug, Quiet
from .progress_bar import progress_bar


def classroom(
    folders: Annotated[list[Path], typer.Argument(help="One folder for each student, or a folder of such folders.")],
    league: Annotated[int, typer.Option(min=0, help="The league that is due: `exercise score --league`.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Lines verified at a time.")] = min(4, os.cpu_count() or 1),
    as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False,
):  # fmt: skip
    """Rank the kernels of a class by their counts.

    Each line of a folder's league.txt is verified by running the folder's file again. Exit code 1 if one does not hold.
    """
    from .. import __version__
    from ..course.exercises import grade
    from ..course.exercises import league as leagues
    from ..errors import InputError

    students, _ = grade.submissions_of_folders(folders)
    with progress_bar("verifying", quiet) as report:
        places = leagues.verify_all_lines(students, league, __version__, jobs, report)
    if not places:
        raise InputError(
            f"{leagues.FILE} holds no line in any of these folders: students write theirs with "
            "`minidecode exercise score` and hand it in beside their files"
        )
    print(json.dumps(leagues.as_records(places)) if as_json else leagues.as_table(places))
    if any(place.problem for place in places):
        raise typer.Exit(1)
