"""Ends a loop that never ends: a second thread watches whether the launch moves on, and if not, interrupts it."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from typing import Any


class Interrupted(BaseException):
    """Raised inside the thread that does not come on. No kernel catches it by `except Exception`."""


class Watchdog:
    """Interrupts `run(work)` when `progress()` has not changed for `patience` seconds of processor time.

    The interruption arrives as an exception between two byte codes, which every platform can do, and which costs
    nothing as long as all goes well. A laptop that sleeps, or that is busy with other work, counts nothing. Python
    drops an exception that arrives inside a destructor; so the interruption is sent again until the work is over.

    It may also arrive when the work has just ended: after a long call into C code, the next byte code is the first one
    of whatever follows. In an `__exit__` it would go off before that has told the watching thread to stop, which would
    then interrupt the thread for ever. So `run_watched` is one function, and what it calls after the work is C code,
    which no interruption stops half-way.
    """

    TICK = 0.1
    AGAIN = 1.0  # seconds after which an interruption that did not end the work is sent again

    def __init__(self, patience: float, progress: Callable[[], object]):
        self.has_interrupted = False  # whether the time was over before the work was
        self._patience = patience
        self._progress = progress
        self._target = threading.get_ident()
        self._at_work = threading.Lock()  # held while the work runs
        self._sending = threading.Lock()
        self._usual_hook = sys.unraisablehook
        self._thread = threading.Thread(target=self._interrupt_if_no_progress, daemon=True, name="emulator watchdog")

    def run_watched(self, work: Callable[[], Any]) -> Any:
        """What `work()` returns. Raises Interrupted if the work was interrupted; once it is over, nothing arrives."""
        interruption = result = None
        self._usual_hook, sys.unraisablehook = sys.unraisablehook, self._on_unraisable
        self._at_work.acquire()
        self._thread.start()
        try:
            try:
                result = work()
            finally:
                self._at_work.release()  # at most one interruption comes after this: the one that is being sent
        except Interrupted as raised:
            interruption = raised
        finally:
            try:
                self._sending.acquire()  # after this none is sent
                if self.has_interrupted:
                    for _ in range(1000):  # if one was sent late, let it arrive here
                        pass
            except Interrupted:
                pass
            sys.unraisablehook = self._usual_hook
        if interruption is not None:
            raise interruption
        return result

    def _on_unraisable(self, unraisable) -> None:
        """Says nothing of an interruption that a destructor has swallowed."""
        if unraisable.exc_type is not Interrupted:
            self._usual_hook(unraisable)

    def _interrupt_if_no_progress(self) -> None:
        seen, since = self._progress(), time.process_time()
        while not self._at_work.acquire(timeout=self.TICK):
            now = self._progress()
            if now != seen:
                seen, since = now, time.process_time()
            elif time.process_time() - since >= self._patience:
                self._interrupt()
                while not self._at_work.acquire(timeout=self.AGAIN):
                    self._interrupt()
                return

    def _interrupt(self) -> None:
        if not self._sending.acquire(blocking=False):
            return  # the work is over: `run_watched` keeps this lock for ever
        try:
            if self._at_work.locked():
                self.has_interrupted = True
                exception = ctypes.py_object(Interrupted)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._target), exception)
        finally:
            self._sending.release()
