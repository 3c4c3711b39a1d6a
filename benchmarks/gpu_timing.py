"""What the parts of gpu.py share: where a part records its figures, and how it times.

A part is a function `run(record)` of a file of this folder. `record["name"] = figures` writes a figure to the results'
file at once, and `record.ask("name", function)` asks for one that is not there yet; what fails is recorded and ends
nothing. `record.device` is "cuda", "emulator" or "cpu"; `record.quick` asks for toy shapes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FAILED = "failed"
NO_MEMORY = "out of memory"
STICKY = ("illegal", "launch failure", "launch failed", "launch timeout", "misaligned", "hardware", "unspecified")


class DeviceLostError(Exception):
    """A failure after which no more work can be given to the device by this process."""


class Record:
    """The figures of one part, by name; a part that goes on where it ended finds those of before.

    tried: names that failed in this call, which are not asked for again. begin(name) and send(name, figures) tell the
    main process what is on the way, so that it can name what hangs.
    """

    def __init__(
        self, device: str, quick: bool, models: Path, before: dict, tried: set[str] = frozenset(),
        begin: Callable[[str], None] = lambda name: None, send: Callable[[str, Any], None] = lambda name, figure: None,
    ):  # fmt: skip
        self.device, self.quick, self.models = device, quick, models
        self.figures = {name: figure for name, figure in before.items() if not is_failure(figure)}
        self._tried, self._begin, self._send = tried, begin, send

    def __contains__(self, name: str) -> bool:
        return name in self.figures

    def __setitem__(self, name: str, figures: Any) -> None:
        self.figures[name] = figures
        self._send(name, figures)

    def ask(self, name: str, function: Callable[[], Any]) -> None:
        """Records function(), or why it failed, if there is no figure of this name yet."""
        if name in self or name in self._tried:
            return
        self._begin(name)
        try:
            self[name] = function()
        except (Exception, SystemExit) as error:  # scripts of this folder end themselves on wrong answers
            self[name] = {FAILED: why(error)}
            if is_sticky(error):
                raise DeviceLostError(name) from error


def check_cupy() -> None:
    """Raises SystemExit without CuPy, which scripts that time kernels on a GPU alone need."""
    if find_spec("cupy") is None:
        raise SystemExit(f"{Path(sys.argv[0]).name} needs a GPU and CuPy: pip install '.[cu13]', or '.[cu12]'")


def is_failure(figure: Any) -> bool:
    return isinstance(figure, dict) and FAILED in figure


def why(error: BaseException) -> str:
    """The failure in one line that a table can hold. Libraries have several names for being out of memory."""
    summary = f"{type(error).__name__}: {error}"
    plain = summary.replace("_", " ").lower()
    if isinstance(error, MemoryError) or "out of memory" in plain or "alloc failed" in plain:
        return NO_MEMORY
    return summary.splitlines()[0][:200].replace("|", "/")


def is_sticky(error: BaseException) -> bool:
    """Whether CUDA says the same to whatever the process asks of it from now on."""
    text = f"{error}".lower().replace("_", " ")
    return "cuda" in text and any(word in text for word in STICKY)


def waiter(device: str) -> Callable[[], None]:
    """A function that waits until the device has done all that it was given."""
    if device != "cuda":
        return lambda: None
    import cupy

    return cupy.cuda.Device().synchronize


def spread(seconds: list[float], unit: float) -> list[float]:
    """[median, fastest, slowest] in this unit: 1e3 for milliseconds, 1e6 for microseconds."""
    return [round(unit * s, 4) for s in (statistics.median(seconds), min(seconds), max(seconds))]


def seconds_of(
    run: Callable[[], Any], wait: Callable[[], None], turns: int, times: int = 1, at_most: float = 5.0
) -> list[float]:
    """Seconds of one of `times` runs, waits included, for each turn; two turns at least, and no more after at_most."""
    seconds: list[float] = []
    began = time.perf_counter()
    while len(seconds) < turns and (len(seconds) < 2 or time.perf_counter() - began < at_most):
        wait()
        started = time.perf_counter()
        for _ in range(times):
            run()
        wait()
        seconds.append((time.perf_counter() - started) / times)
    return seconds
