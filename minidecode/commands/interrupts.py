"""Signals that end a command become exceptions, which go through its clean-up.

Python drops what is raised where C calls back into it: in the garbage collector, in a finalizer, in LLVM's compiler. It
prints a traceback then, and goes on. And some libraries make another exception of it. So the signal is remembered: what
was dropped is raised again, and what comes of a signal ends the command as the signal does.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

SOON = 0.01  # seconds: by then the call that dropped an exception has ended

_asked: int | None = None  # the signal that came


class Terminated(BaseException):
    """Somebody asked the program to end. No `except SystemExit` of a user's function holds it up."""


@contextlib.contextmanager
def raise_on_signals() -> Iterator[None]:
    """Within it SIGINT raises KeyboardInterrupt and SIGTERM raises Terminated, until one of them has its effect."""
    global _asked
    _asked, usual_hook = None, sys.unraisablehook

    def repeat_signal_if_dropped(dropped: Any) -> None:
        if issubclass(dropped.exc_type, (KeyboardInterrupt, Terminated)):
            _thread.start_new_thread(_raise_signal_again, ())  # threading.Thread takes locks, which may be held here
        else:
            usual_hook(dropped)

    usual = {number: signal.signal(number, _raise_interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    sys.unraisablehook = repeat_signal_if_dropped
    try:
        yield
    finally:
        _asked, sys.unraisablehook = None, usual_hook  # it has its effect by now, and is not sent again
        for number, handler in usual.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = number
    raise_if_asked()


def raise_if_asked() -> None:
    """Raises what a signal that has come raises."""
    if _asked is not None:
        raise KeyboardInterrupt if _asked == signal.SIGINT else Terminated


def _raise_signal_again() -> None:
    time.sleep(SOON)
    if (number := _asked) is None:
        return
    if sys.platform == "win32":
        _thread.interrupt_main(number)
    else:
        os.kill(os.getpid(), number)


def report_unless_interrupted(report: Callable[[float, int], None]) -> Callable[[float, int], None]:
    """`report`, which raises a signal again of which a library has swallowed the exception."""

    def report_or_raise(done: float, total: int) -> None:
        raise_if_asked()
        report(done, total)

    return report_or_raise
