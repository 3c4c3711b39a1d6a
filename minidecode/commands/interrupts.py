"""Signals that end a command become exceptions, which go through its clean-up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

_interrupted = threading.Event()


class Terminated(BaseException):
    """Somebody asked the program to end. No `except SystemExit` of a user's function holds it up."""


def raise_on_signals() -> None:
    """From now on SIGINT raises KeyboardInterrupt and SIGTERM raises Terminated."""
    _interrupted.clear()
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGINT, _interrupt)


def _terminate(*_) -> None:
    raise Terminated


def _interrupt(*_) -> None:
    _interrupted.set()
    raise KeyboardInterrupt


def unless_interrupted(report: Callable[[float, int], None]) -> Callable[[float, int], None]:
    """The same, but an interrupt that was lost is raised again: Python drops what is raised while it collects garbage,
    and hypothesis has a hook there."""

    def call(done: float, total: int) -> None:
        if _interrupted.is_set():
            raise KeyboardInterrupt
        report(done, total)

    return call
