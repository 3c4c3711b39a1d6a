"""Results recorded on an idle machine, for cells that draw them beside the reader's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import InputError
from .figure import Figure

PACKAGE = Path(__file__).resolve().parents[1]
PLACES = (PACKAGE / "results", PACKAGE.parent / "benchmarks" / "results")  # of an installed package, of a checkout


def recorded(name: str) -> Any:
    """The content of benchmarks/results/NAME.json. Raises InputError where there is no such file.

    An installed package has those that chapters draw: pyproject.toml says which.
    """
    for path in (place / f"{name}.json" for place in PLACES):
        if path.is_file():
            return json.loads(path.read_text(encoding="utf-8"))
    raise InputError(f"there are no results {name!r} in {' or '.join(map(str, PLACES))}")


class Yours:
    """A figure of this machine's own numbers: shown in notebooks and on the site, never kept in the chapter's text."""

    def __init__(self, figure: Figure):
        self.figure = figure

    def _repr_html_(self) -> str:
        return self.figure._repr_html_()

    def __repr__(self) -> str:
        return f"{self.figure.caption} {self.figure.alt}"
