"""The thread that steps: what other threads ask of the scheduler is done between two steps."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from ..errors import MinidecodeError
from .scheduler import Scheduler

Result = TypeVar("Result")


class Worker:
    """Owns a scheduler. Only its thread touches it: others hand in functions by `ask`."""

    def __init__(self, scheduler: Scheduler):
        self.scheduler = scheduler
        self._asked: queue.SimpleQueue[tuple[Callable[[Scheduler], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="minidecode-steps", daemon=True)
        self._thread.start()

    def ask(self, function: Callable[[Scheduler], Result]) -> Future[Result]:
        """function(scheduler) between two steps."""
        answer: Future[Result] = Future()
        self._asked.put((function, answer))
        return answer

    def close(self) -> None:
        """Ends the thread, within a step. Requests that are not over are cancelled."""
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            while not self._asked.empty() or self.scheduler.is_idle:
                asked = self._asked.get()
                if asked is None:
                    for job in (*self.scheduler.running, *self.scheduler.waiting):
                        self.scheduler.cancel(job)
                    return
                _answer(asked, self.scheduler)
            try:
                self.scheduler.step()
            except Exception as error:  # a bug of ours: those that run end, and the server goes on
                self.scheduler.fail_all(MinidecodeError(f"a step failed ({type(error).__name__}: {error})"))


def _answer(asked: tuple[Callable[[Scheduler], Any], Future[Any]], scheduler: Scheduler) -> None:
    function, answer = asked
    if answer.set_running_or_notify_cancel():
        try:
            answer.set_result(function(scheduler))
        except BaseException as error:
            answer.set_exception(error)
