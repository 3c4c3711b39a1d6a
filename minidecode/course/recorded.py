"""Results that were recorded on a quiet machine, for cells that draw them; and what is drawn of the reader's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import InputError
from .figure import Figure

FOLDER = Path(__file__).parents[2] / "benchmarks" / "results"


def recorded(name: str) -> Any:
    """The content of benchmarks/results/NAME.json. Raises InputError where there is no such file."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        raise InputError(f"{path} is not there: results lie in a checkout of the repository, not in a wheel")
    return json.loads(path.read_text(encoding="utf-8"))


class Yours:
    """A figure of this machine's own numbers: shown in notebooks and on the site, never kept in the chapter's text."""

    def __init__(self, figure: Figure):
        self.figure = figure

    def _repr_html_(self) -> str:
        return self.figure._repr_html_()

    def __repr__(self) -> str:
        return f"{self.figure.caption} {self.figure.alt}"
