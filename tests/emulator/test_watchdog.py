"""An endless loop is ended even where Python drops the first interruption."""

import contextlib
import hashlib
import sys
import threading
import time

import numpy as np
import pytest

from minidecode.emulator.watchdog import Interrupted, Watchdog


def test_an_interruption_that_a_destructor_swallows_is_sent_again(monkeypatch, capsys):
    monkeypatch.setattr(Watchdog, "AGAIN", 0.05)

    class Slow:
        def __del__(self):  # whatever is raised here, Python drops
            ended = time.process_time() + 0.3
            while time.process_time() < ended:
                pass

    def work():
        Slow()  # is gone at once, and swallows the first interruption
        while True:
            pass

    with pytest.raises(Interrupted):
        Watchdog(0.1, progress=lambda: 0).run_watched(work)
    assert capsys.readouterr().err == ""


def test_the_hook_for_other_exceptions_in_destructors_is_put_back():
    before = sys.unraisablehook
    during = Watchdog(5.0, progress=lambda: 0).run_watched(lambda: sys.unraisablehook)
    assert during is not before and sys.unraisablehook is before


@pytest.mark.parametrize("again", [0.01, 0.05, 1.0])
@pytest.mark.parametrize("work", ["operator", "call"])
def test_an_interruption_that_arrives_when_the_work_ends_is_the_last_one(monkeypatch, work, again):
    """A step in C code cannot be interrupted: what was sent meanwhile arrives at the first byte code after it."""
    monkeypatch.setattr(Watchdog, "AGAIN", again)
    square = np.ones((1500, 1500))
    works = {
        "operator": lambda: square @ square @ square,
        "call": lambda: hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000),
    }
    watchdog = Watchdog(0.01, progress=lambda: 0)
    with contextlib.suppress(Interrupted):
        watchdog.run_watched(works[work])
    assert watchdog.has_interrupted
    ended = time.monotonic() + 1.2
    while time.monotonic() < ended:  # raises Interrupted if the watching thread still sends
        pass
    assert not watchdog._thread.is_alive()


def test_a_watching_thread_that_comes_too_late_waits_for_nothing():
    watchdog = Watchdog(5.0, progress=lambda: 0)
    watchdog.run_watched(lambda: None)
    late = threading.Thread(target=watchdog._interrupt, daemon=True)
    late.start()
    late.join(5)
    assert not late.is_alive() and not watchdog.has_interrupted


def test_other_exceptions_leave_nothing_running():
    watchdog = Watchdog(5.0, progress=lambda: 0)
    with pytest.raises(ZeroDivisionError):
        watchdog.run_watched(lambda: 1 / 0)
    watchdog._thread.join(5)
    assert not watchdog._thread.is_alive() and not watchdog.has_interrupted
