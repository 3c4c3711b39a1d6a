"""Ends a loop that never ends: a second thread watches whether the launch moves on, and if not, interrupts it."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time


class Interrupted(BaseException):
    """Raised inside the thread that does not come on. No kernel catches it by `except Exception`."""


class Watchdog:
    """Interrupts the calling thread when `progress()` has not changed for `patience` seconds of processor time.

    The interruption arrives as an exception between two byte codes, which every platform can do, and which costs
    nothing as long as all goes well. A laptop that sleeps, or that is busy with other work, counts nothing. Python
    drops an exception that arrives inside a destructor; so the interruption is sent again until the thread comes here.
    """

    TICK = 0.1
    AGAIN = 1.0  # seconds after which an interruption that did not end the work is sent again

    def __init__(self, patience: float, progress):
        self._patience = patience
        self._progress = progress
        self._target = threading.get_ident()
        self._over = threading.Event()
        self._has_sent = False
        self._usual_hook = sys.unraisablehook
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="emulator watchdog")

    def __enter__(self) -> Watchdog:
        self._usual_hook, sys.unraisablehook = sys.unraisablehook, self._on_unraisable
        self._thread.start()
        return self

    def __exit__(self, kind, *_) -> None:
        with self._lock:  # after this no interruption is sent any more
            self._over.set()
        sys.unraisablehook = self._usual_hook
        # Taking it back by ctypes (a null exception) would leave CPython 3.11 checking for it for ever after.
        if self._has_sent and kind is not Interrupted:  # one is still under way: let it arrive here
            with contextlib.suppress(Interrupted):
                for _ in range(10_000_000):
                    pass

    @property
    def has_interrupted(self) -> bool:
        """Whether the time was over before the work was done."""
        return self._has_sent

    def _on_unraisable(self, unraisable) -> None:
        """Says nothing of an interruption that a destructor has swallowed."""
        if unraisable.exc_type is not Interrupted:
            self._usual_hook(unraisable)

    def _watch(self) -> None:
        seen, since = self._progress(), time.process_time()
        while not self._over.wait(self.TICK):
            now = self._progress()
            if now != seen:
                seen, since = now, time.process_time()
            elif time.process_time() - since >= self._patience:
                while not self._over.is_set():
                    self._interrupt()
                    self._over.wait(self.AGAIN)

    def _interrupt(self) -> None:
        with self._lock:
            if not self._over.is_set():
                self._has_sent = True
                exception = ctypes.py_object(Interrupted)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._target), exception)
