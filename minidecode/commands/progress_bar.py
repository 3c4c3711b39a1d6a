"""What shows that long work is going on: a progress bar, or lines on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any


class Report:
    """report(done, total) draws; say(text) tells what is being done. Neither does anything where no bar is shown."""

    is_shown = False

    def __call__(self, done: float, total: int | None) -> None:
        pass

    def say(self, text: str) -> None:
        pass


@contextlib.contextmanager
def progress_bar(label: str, quiet: bool, unit: str = "") -> Iterator[Report]:
    """Yields report(done, total), which draws a bar on stderr if that is a terminal; a total of None is unknown.

    unit: of what a rate is shown; then it also shows what is left where the total is known.
    """
    if quiet or not sys.stderr.isatty():
        yield Report()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = [TextColumn("{task.fields[rate]}")] if unit else []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *rate, TimeRemainingColumn())
    began = time.perf_counter()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None, rate="")

        class Shown(Report):
            is_shown = True

            def __call__(self, done: float, total: int | None) -> None:
                per_second = done / max(time.perf_counter() - began, 1e-9)
                progress.update(task, completed=done, total=total, rate=f"{per_second:.1f} {unit}/s")

            def say(self, text: str) -> None:
                progress.update(task, description=text)

        yield Shown()


@contextlib.contextmanager
def announce_compiling(plan: Any, quiet: bool) -> Iterator[None]:
    """Tells in a line on stderr that the compiler starts, when it first does: seconds to a minute pass without output.

    plan: of the model, a `Plan`.
    """
    if quiet or not plan.may_compile:
        yield
        return
    from ..search.compiled import call_when_compiling

    said = "minidecode: compiling code for this plan, once on this machine"
    with call_when_compiling(lambda: print(said, file=sys.stderr, flush=True)):
        yield


def make_announcer(label: str, quiet: bool) -> Callable[[str], None]:
    """Tells in a line on stderr what is about to run, where no progress bar shows that something does."""
    if quiet or sys.stderr.isatty():
        return lambda what: None
    return lambda what: print(f"{label}: {what}", file=sys.stderr, flush=True)
