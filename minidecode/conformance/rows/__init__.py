"""Inputs, oracle and bound of each row of the catalog, in a file of its name.

Each file has these:

draw_inputs         a strategy that draws the op's positional arguments
planted_cases       cases that random arguments seldom hit
large_cases         more cases, of sizes at which versions break that are right on small ones (`sizes.py`); they run
                    within a budget of time, the cheapest first
oracle              the right answer, computed in the plainest way, in float64 where it matters, by no code of the op
error_bound         how far an answer may lie from the oracle's, for rows under tolerance
make_paper_inputs   (arguments, what they are) at the size that the paper times

A file has these where its row needs them:

find_fault          where several answers are right: what is wrong with results, or None; takes results, then arguments
find_broken_promise  takes what `find_fault` takes: what a right answer lacks that all versions but the naive one give
replace_undefined_results  a result with the oracle's numbers where no answer means anything, such as between NaN; it
                    takes the result, the oracle's and the arguments
bytes_needed        where answers differ in the memory that they ask for: how much; takes results, then arguments
timing_notes        in words, what an implementation's time does not show; takes the arguments
count_generated_numbers  how many numbers an input costs besides its arrays
STORED              how weights or caches of `make_paper_inputs` are stored
REPEATED            argument -> its axis that larger inputs repeat, in place of all rows and sentences
WHEN_REPEATED       what `make_paper_inputs` takes besides for inputs that are repeated
FETCHED             what the NumPy code reads as Python numbers
HANDED_OUT          False where no plan passes `out` to the op, so a user's function is not tried with it

Rows are distinct, so that an answer of row 0 for all rows is seen. What lies behind a row's length is poison, which
changes the answer if it is read.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


def row_module(name: str) -> ModuleType:
    """The file of a row. It needs hypothesis, so it is imported when it is used."""
    return importlib.import_module(f"{__name__}.{name}")


def make_inputs_to_repeat(name: str, **asked: Any) -> tuple[tuple, str]:
    """The paper's inputs of a row, and what they are, in the form of which larger inputs are made."""
    asked_row = row_module(name)
    return asked_row.make_paper_inputs(**getattr(asked_row, "WHEN_REPEATED", {}), **asked)


def axis_to_repeat(name: str, argument: str) -> int | None:
    """Which axis of an argument is repeated to make a row's inputs larger: rows or sentences, unless REPEATED says."""
    repeated = getattr(row_module(name), "REPEATED", None)
    if repeated is not None:
        return repeated.get(argument)
    return 0 if argument.rpartition("_")[2][0] in "RB" else None
