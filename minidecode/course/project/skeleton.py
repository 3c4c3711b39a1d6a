"""The file that a student begins with: our engine without its answers."""

from __future__ import annotations

from pathlib import Path

from ...errors import InputError
from ..exercises.skeleton import folders_with_solutions, strip_solution

SHIPPED = Path(__file__).with_name("engine_skeleton.py")  # in a wheel, which has no solution
HEAD = '"""My engine: one decoder in twelve stages. minidecode project check says how far it is."""\n\n'


def our_engine() -> str | None:
    """The text of our engine; None where there are no solutions."""
    solutions = (root / "exercises" / "engine" / "solution.py" for root in folders_with_solutions())
    return next((solution.read_text("utf-8") for solution in solutions if solution.is_file()), None)


def engine_skeleton() -> str:
    """The text of the skeleton. In a checkout it is made from the solution, so the two cannot differ."""
    if (solution := our_engine()) is not None:
        return HEAD + strip_solution(solution)
    if SHIPPED.is_file():
        return HEAD + SHIPPED.read_text("utf-8")
    raise InputError("this installation has no skeleton of the project: reinstall minidecode")
